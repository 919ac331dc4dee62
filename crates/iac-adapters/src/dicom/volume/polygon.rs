//! Which voxels of a slice polygons hold.

/// Polygons drawn into one slice: a voxel is held when an odd number of edges lies to one side of
/// its centre. Drawing several polygons is their exclusive or.
///
/// A centre on an edge counts as inside at left and upper edges, and as outside at right and lower
/// ones, so that polygons that share an edge share no voxel.
pub(super) struct Raster {
    rows: usize,
    columns: usize,
    /// Whether what lies right of here, the place included, changes sides.
    turns: Vec<bool>,
}

impl Raster {
    pub(super) fn new([rows, columns]: [usize; 2]) -> Self {
        Self { rows, columns, turns: vec![false; rows.saturating_mul(columns)] }
    }

    /// Rows that the edges of a polygon cross: the work that drawing it is.
    pub(super) fn steps(points: &[[f64; 2]], [rows, _]: [usize; 2]) -> u64 {
        let before = points.iter().cycle().skip(points.len().saturating_sub(1));
        let steps = before.zip(points).map(|([_, one], [_, other])| {
            let (top, bottom) = (one.min(*other), one.max(*other));
            whole(bottom, rows).saturating_sub(whole(top, rows))
        });
        u64::try_from(steps.fold(0, usize::saturating_add)).unwrap_or(u64::MAX)
    }

    /// Adds a closed polygon of (column, row) points.
    pub(super) fn add(&mut self, points: &[[f64; 2]]) {
        let Some(last) = points.last() else {
            return;
        };
        let mut before = *last;
        for point in points {
            self.edge(before, *point);
            before = *point;
        }
    }

    fn edge(&mut self, one: [f64; 2], other: [f64; 2]) {
        // Always from the upper end, so that an edge drawn backwards crosses at the same places.
        let ([x, top], [to, bottom]) = if one[1] <= other[1] { (one, other) } else { (other, one) };
        let slope = (to - x) / (bottom - top);
        for row in whole(top, self.rows)..whole(bottom, self.rows) {
            let crossing = x + (super::affine::count(row) - top) * slope;
            let column = whole(crossing, self.columns);
            if column >= self.columns {
                continue;
            }
            let at = row.saturating_mul(self.columns).saturating_add(column);
            if let Some(turn) = self.turns.get_mut(at) {
                *turn = !*turn;
            }
        }
    }

    /// Whether each voxel is held, row after row.
    pub(super) fn finish(mut self) -> Vec<bool> {
        for row in self.turns.chunks_mut(self.columns.max(1)) {
            let mut inside = false;
            for turn in row {
                inside ^= *turn;
                *turn = inside;
            }
        }
        self.turns
    }
}

/// The first whole number that is not below, from 0 to `most`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // In range by then.
fn whole(number: f64, most: usize) -> usize {
    let number = number.ceil();
    if number <= 0.0 {
        0
    } else if number >= super::affine::count(most) {
        most
    } else {
        number as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook's test, voxel by voxel.
    fn by_hand(polygons: &[Vec<[f64; 2]>], [rows, columns]: [usize; 2]) -> Vec<bool> {
        let mut held = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                let (x, y) = (column as f64, row as f64);
                let mut inside = false;
                for polygon in polygons {
                    let before = polygon.iter().cycle().skip(polygon.len().saturating_sub(1));
                    for ([xa, ya], [xb, yb]) in polygon.iter().zip(before) {
                        if (*ya > y) != (*yb > y) && x < (xb - xa) * (y - ya) / (yb - ya) + xa {
                            inside = !inside;
                        }
                    }
                }
                held.push(inside);
            }
        }
        held
    }

    fn drawn(polygons: &[Vec<[f64; 2]>], size: [usize; 2]) -> Vec<bool> {
        let mut raster = Raster::new(size);
        for polygon in polygons {
            raster.add(polygon);
        }
        raster.finish()
    }

    #[test]
    fn polygons_hold_what_the_textbook_says() {
        let size = [24, 31];
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 40) as f64 / f64::from(1 << 24)) * 44.0 - 6.037
        };
        for round in 0..200 {
            let polygons: Vec<Vec<[f64; 2]>> = (0..1 + round % 3)
                .map(|_| (0..3 + round % 17).map(|_| [random(), random()]).collect())
                .collect();
            assert_eq!(drawn(&polygons, size), by_hand(&polygons, size), "round {round}");
        }
    }

    #[test]
    fn the_work_is_the_rows_that_edges_cross_inside_of_the_slice() {
        let square = [[1.0, -3.0], [4.0, -3.0], [4.0, 5.5], [1.0, 5.5]];
        assert_eq!(Raster::steps(&square, [8, 8]), 12);
        assert_eq!(Raster::steps(&square, [4, 8]), 8);
    }

    #[test]
    fn a_square_between_centres_holds_those_inside_and_a_hole_is_left_out() {
        let square = |from: f64, to: f64| vec![[from, from], [to, from], [to, to], [from, to]];
        let held = drawn(&[square(0.5, 8.5), square(2.5, 4.5)], [10, 10]);
        assert_eq!(held.iter().filter(|it| **it).count(), 64 - 4);
        assert!(held[11] && !held[33] && held[55]);
    }

    #[test]
    fn squares_that_share_an_edge_on_centres_share_no_voxel() {
        let (left, right) = (
            vec![[1.0, 1.0], [4.0, 1.0], [4.0, 5.0], [1.0, 5.0]],
            vec![[4.0, 1.0], [7.0, 1.0], [7.0, 5.0], [4.0, 5.0]],
        );
        let one = drawn(std::slice::from_ref(&left), [8, 8]);
        let other = drawn(std::slice::from_ref(&right), [8, 8]);
        assert!(one.iter().zip(&other).all(|(a, b)| !(*a && *b)));
        assert_eq!(one.iter().chain(&other).filter(|it| **it).count(), 24);
        let both = drawn(&[left, right], [8, 8]);
        assert_eq!(both.iter().filter(|it| **it).count(), 24);
    }
}
