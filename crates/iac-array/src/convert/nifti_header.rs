//! Headers of NIfTI-1 (348 bytes) and NIfTI-2 (540 bytes), in either order of bytes.

use crate::error::{ArrayError, Result};
use std::path::Path;

/// Bytes of the headers.
pub(super) const BYTES_1: usize = 348;
pub(super) const BYTES_2: usize = 540;

/// What a header says; numbers as the wider version has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) version: u8,
    /// Numbers have their high bytes first, those of the elements too.
    pub(super) swapped: bool,
    /// The elements are in a second file.
    pub(super) pair: bool,
    pub(super) dim: [i64; 8],
    pub(super) intent_p: [f64; 3],
    pub(super) intent_code: i32,
    pub(super) datatype: i16,
    pub(super) bitpix: i16,
    pub(super) slice_start: i64,
    pub(super) slice_end: i64,
    pub(super) slice_code: i32,
    pub(super) slice_duration: f64,
    pub(super) toffset: f64,
    pub(super) pixdim: [f64; 8],
    pub(super) vox_offset: i64,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    pub(super) cal_max: f64,
    pub(super) cal_min: f64,
    pub(super) xyzt_units: i32,
    pub(super) qform_code: i32,
    pub(super) sform_code: i32,
    pub(super) quatern: [f64; 3],
    pub(super) qoffset: [f64; 3],
    pub(super) srow: [[f64; 4]; 3],
    pub(super) dim_info: u8,
    pub(super) descrip: [u8; 80],
    pub(super) aux_file: [u8; 24],
    pub(super) intent_name: [u8; 16],
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: 1,
            swapped: false,
            pair: false,
            dim: [0, 1, 1, 1, 1, 1, 1, 1],
            intent_p: [0.0; 3],
            intent_code: 0,
            datatype: 0,
            bitpix: 0,
            slice_start: 0,
            slice_end: 0,
            slice_code: 0,
            slice_duration: 0.0,
            toffset: 0.0,
            pixdim: [1.0; 8],
            vox_offset: 0,
            slope: 0.0,
            intercept: 0.0,
            cal_max: 0.0,
            cal_min: 0.0,
            // Millimetres and seconds.
            xyzt_units: 10,
            qform_code: 0,
            sform_code: 0,
            quatern: [0.0; 3],
            qoffset: [0.0; 3],
            srow: [[0.0; 4]; 3],
            dim_info: 0,
            descrip: [0; 80],
            aux_file: [0; 24],
            intent_name: [0; 16],
        }
    }
}

/// Fields of a header that is read.
struct Fields<'a> {
    bytes: &'a [u8],
    swapped: bool,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<N>);
        found.copied().unwrap_or([0; N])
    }

    fn ordered<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = self.bytes::<N>(at);
        if self.swapped {
            bytes.reverse();
        }
        bytes
    }

    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.ordered(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.ordered(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.ordered(at))
    }

    fn f32(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.ordered(at)))
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.ordered(at))
    }

    /// So many numbers that lie `step` bytes apart.
    fn many<T, const N: usize>(
        &self,
        at: usize,
        step: usize,
        one: fn(&Self, usize) -> T,
    ) -> [T; N] {
        std::array::from_fn(|number| one(self, at.saturating_add(number.saturating_mul(step))))
    }
}

impl Header {
    /// Which version the first four bytes announce, and whether numbers are turned round.
    pub(super) fn announced(start: [u8; 4]) -> Option<(u8, bool)> {
        match (i32::from_le_bytes(start), i32::from_be_bytes(start)) {
            (348, _) => Some((1, false)),
            (_, 348) => Some((1, true)),
            (540, _) => Some((2, false)),
            (_, 540) => Some((2, true)),
            _ => None,
        }
    }

    /// Reads a header from all of its bytes.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let foreign = || ArrayError::damaged(path, "it does not begin as a NIfTI file");
        let start = bytes.first_chunk::<4>().copied().ok_or_else(foreign)?;
        let (version, swapped) = Self::announced(start).ok_or_else(foreign)?;
        let fields = Fields { bytes, swapped };
        let header = if version == 1 { Self::first(&fields) } else { Self::second(&fields) };
        let magic: [u8; 4] = if version == 1 { fields.bytes(344) } else { fields.bytes(4) };
        let pair = match (version, &magic) {
            (1, b"n+1\0") | (2, b"n+2\0") => false,
            (1, b"ni1\0") | (2, b"ni2\0") => true,
            (1, [0, ..]) => {
                return Err(ArrayError::foreign(path, "the older Analyze format"));
            }
            _ => return Err(foreign()),
        };
        // What a transfer as text would have changed.
        if version == 2 && fields.bytes::<4>(8) != *b"\r\n\x1a\n" {
            return Err(ArrayError::damaged(
                path,
                "the bytes behind its magic are not those of NIfTI-2",
            ));
        }
        Ok(Self { pair, ..header })
    }

    fn first(fields: &Fields<'_>) -> Self {
        Self {
            version: 1,
            swapped: fields.swapped,
            pair: false,
            dim: fields.many(40, 2, |fields, at| i64::from(fields.i16(at))),
            intent_p: fields.many(56, 4, Fields::f32),
            intent_code: fields.i16(68).into(),
            datatype: fields.i16(70),
            bitpix: fields.i16(72),
            slice_start: fields.i16(74).into(),
            slice_end: fields.i16(120).into(),
            slice_code: fields.bytes::<1>(122).map(i32::from)[0],
            slice_duration: fields.f32(132),
            toffset: fields.f32(136),
            pixdim: fields.many(76, 4, Fields::f32),
            vox_offset: whole(fields.f32(108)),
            slope: fields.f32(112),
            intercept: fields.f32(116),
            cal_max: fields.f32(124),
            cal_min: fields.f32(128),
            xyzt_units: fields.bytes::<1>(123).map(i32::from)[0],
            qform_code: fields.i16(252).into(),
            sform_code: fields.i16(254).into(),
            quatern: fields.many(256, 4, Fields::f32),
            qoffset: fields.many(268, 4, Fields::f32),
            srow: fields.many(280, 16, |fields, at| fields.many(at, 4, Fields::f32)),
            dim_info: fields.bytes::<1>(39)[0],
            descrip: fields.bytes(148),
            aux_file: fields.bytes(228),
            intent_name: fields.bytes(328),
        }
    }

    fn second(fields: &Fields<'_>) -> Self {
        Self {
            version: 2,
            swapped: fields.swapped,
            pair: false,
            dim: fields.many(16, 8, Fields::i64),
            intent_p: fields.many(80, 8, Fields::f64),
            intent_code: fields.i32(504),
            datatype: fields.i16(12),
            bitpix: fields.i16(14),
            slice_start: fields.i64(224),
            slice_end: fields.i64(232),
            slice_code: fields.i32(496),
            slice_duration: fields.f64(208),
            toffset: fields.f64(216),
            pixdim: fields.many(104, 8, Fields::f64),
            vox_offset: fields.i64(168),
            slope: fields.f64(176),
            intercept: fields.f64(184),
            cal_max: fields.f64(192),
            cal_min: fields.f64(200),
            xyzt_units: fields.i32(500),
            qform_code: fields.i32(344),
            sform_code: fields.i32(348),
            quatern: fields.many(352, 8, Fields::f64),
            qoffset: fields.many(376, 8, Fields::f64),
            srow: fields.many(400, 32, |fields, at| fields.many(at, 8, Fields::f64)),
            dim_info: fields.bytes::<1>(524)[0],
            descrip: fields.bytes(240),
            aux_file: fields.bytes(320),
            intent_name: fields.bytes(508),
        }
    }

    /// The header of a single file, little-endian, without the four bytes that say that no
    /// extensions follow. None when the version has no room for a number.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        if self.version == 1 { self.encode_first() } else { Some(self.encode_second()) }
    }

    #[allow(clippy::cast_possible_truncation)] // The format has no more digits.
    fn encode_first(&self) -> Option<Vec<u8>> {
        let short = |number: i64| i16::try_from(number).ok();
        let mut out = Out(vec![0; BYTES_1]);
        out.put(0, &348_i32.to_le_bytes());
        // What older readers look for.
        out.put(38, b"r");
        out.put(39, &[self.dim_info]);
        for (at, dim) in (40..).step_by(2).zip(self.dim) {
            out.put(at, &short(dim)?.to_le_bytes());
        }
        out.floats(56, &self.intent_p);
        out.put(68, &short(self.intent_code.into())?.to_le_bytes());
        out.put(70, &self.datatype.to_le_bytes());
        out.put(72, &self.bitpix.to_le_bytes());
        out.put(74, &short(self.slice_start)?.to_le_bytes());
        out.floats(76, &self.pixdim);
        let offset = short(self.vox_offset)?;
        out.floats(108, &[offset.into(), self.slope, self.intercept]);
        out.put(120, &short(self.slice_end)?.to_le_bytes());
        out.put(122, &[u8::try_from(self.slice_code).ok()?, u8::try_from(self.xyzt_units).ok()?]);
        out.floats(124, &[self.cal_max, self.cal_min, self.slice_duration, self.toffset]);
        out.put(148, &self.descrip);
        out.put(228, &self.aux_file);
        out.put(252, &short(self.qform_code.into())?.to_le_bytes());
        out.put(254, &short(self.sform_code.into())?.to_le_bytes());
        out.floats(256, &self.quatern);
        out.floats(268, &self.qoffset);
        for (at, row) in (280..).step_by(16).zip(&self.srow) {
            out.floats(at, row);
        }
        out.put(328, &self.intent_name);
        out.put(344, b"n+1\0");
        Some(out.0)
    }

    fn encode_second(&self) -> Vec<u8> {
        let mut out = Out(vec![0; BYTES_2]);
        out.put(0, &540_i32.to_le_bytes());
        out.put(4, b"n+2\0\r\n\x1a\n");
        out.put(12, &self.datatype.to_le_bytes());
        out.put(14, &self.bitpix.to_le_bytes());
        for (at, dim) in (16..).step_by(8).zip(self.dim) {
            out.put(at, &dim.to_le_bytes());
        }
        out.doubles(80, &self.intent_p);
        out.doubles(104, &self.pixdim);
        out.put(168, &self.vox_offset.to_le_bytes());
        out.doubles(176, &[self.slope, self.intercept, self.cal_max, self.cal_min]);
        out.doubles(208, &[self.slice_duration, self.toffset]);
        out.put(224, &self.slice_start.to_le_bytes());
        out.put(232, &self.slice_end.to_le_bytes());
        out.put(240, &self.descrip);
        out.put(320, &self.aux_file);
        out.put(344, &self.qform_code.to_le_bytes());
        out.put(348, &self.sform_code.to_le_bytes());
        out.doubles(352, &self.quatern);
        out.doubles(376, &self.qoffset);
        for (at, row) in (400..).step_by(32).zip(&self.srow) {
            out.doubles(at, row);
        }
        out.put(496, &self.slice_code.to_le_bytes());
        out.put(500, &self.xyzt_units.to_le_bytes());
        out.put(504, &self.intent_code.to_le_bytes());
        out.put(508, &self.intent_name);
        out.put(524, &[self.dim_info]);
        out.0
    }

    /// Rows of the matrix from (x, y, z, 1) to millimetres: the general one, else that of the
    /// rotation, else only the sizes of voxels. The axes are right, front, head.
    pub(super) fn affine(&self) -> [[f64; 4]; 4] {
        let last = [0.0, 0.0, 0.0, 1.0];
        let [a, b, c] = self.srow;
        if self.sform_code > 0 {
            return [a, b, c, last];
        }
        let [_, dx, dy, dz, ..] = self.pixdim;
        if self.qform_code > 0 {
            let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = rotation(self.quatern);
            let [first, ..] = self.pixdim;
            // The third axis may be mirrored.
            let dz = if first < 0.0 { -dz } else { dz };
            let [x, y, z] = self.qoffset;
            return [
                [xx * dx, xy * dy, xz * dz, x],
                [yx * dx, yy * dy, yz * dz, y],
                [zx * dx, zy * dy, zz * dz, z],
                last,
            ];
        }
        [[dx, 0.0, 0.0, 0.0], [0.0, dy, 0.0, 0.0], [0.0, 0.0, dz, 0.0], last]
    }
}

/// The matrix of a quaternion of length 1 whose first part is not negative.
fn rotation([b, c, d]: [f64; 3]) -> [[f64; 3]; 3] {
    let rest = 1.0 - (b * b + c * c + d * d);
    // A half turn has no first part; rounding must not make it the root of a negative number.
    let (a, b, c, d) = if rest < 1e-7 {
        let length = (b * b + c * c + d * d).sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        (0.0, b * scale, c * scale, d * scale)
    } else {
        (rest.sqrt(), b, c, d)
    };
    [
        [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
        [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
        [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
}

/// A place that NIfTI-1 gives as a float; -1 for one that is none.
#[allow(clippy::cast_possible_truncation)] // Checked to be whole and small.
fn whole(value: f64) -> i64 {
    if value.fract() == 0.0 && (0.0..1e9).contains(&value) { value as i64 } else { -1 }
}

/// Fields of a header that is written.
struct Out(Vec<u8>);

impl Out {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(slot) = self.0.get_mut(at..at.saturating_add(bytes.len())) {
            slot.copy_from_slice(bytes);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // The format has no more digits.
    fn floats(&mut self, at: usize, numbers: &[f64]) {
        for (at, number) in (at..).step_by(4).zip(numbers) {
            self.put(at, &(*number as f32).to_le_bytes());
        }
    }

    fn doubles(&mut self, at: usize, numbers: &[f64]) {
        for (at, number) in (at..).step_by(8).zip(numbers) {
            self.put(at, &number.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(version: u8) -> Header {
        Header {
            version,
            dim: [3, 4, 5, 6, 1, 1, 1, 1],
            datatype: 4,
            bitpix: 16,
            vox_offset: if version == 1 { 352 } else { 544 },
            pixdim: [-1.0, 0.5, 0.25, 2.0, 0.0, 0.0, 0.0, 0.0],
            qform_code: 1,
            quatern: [0.0, 0.0, 1.0],
            qoffset: [10.0, 20.0, 30.0],
            slope: 2.0,
            intercept: -1024.0,
            descrip: [b'x'; 80],
            intent_name: [b'y'; 16],
            slice_code: 3,
            ..Header::default()
        }
    }

    #[test]
    fn headers_come_back_in_either_order_of_bytes() {
        let path = Path::new("x.nii");
        for version in [1, 2] {
            let header = sample(version);
            let bytes = header.encode().unwrap();
            assert_eq!(Header::parse(path, &bytes).unwrap(), header);
        }
        let bytes = sample(1).encode().unwrap();
        let mut swapped = bytes.clone();
        for (at, size) in [(0, 4), (40, 2), (42, 2), (44, 2), (46, 2), (70, 2), (108, 4)] {
            swapped[at..at + size].reverse();
        }
        let found = Header::parse(path, &swapped).unwrap();
        assert!(found.swapped);
        assert_eq!((found.dim[1], found.datatype, found.vox_offset), (4, 4, 352));
        assert!(Header::parse(path, &[0; 348]).is_err());
    }

    #[test]
    fn the_general_matrix_goes_before_the_rotation() {
        let mut header = sample(1);
        // Half a turn about the third axis, which is mirrored.
        let expected = [
            [-0.5, 0.0, 0.0, 10.0],
            [0.0, -0.25, 0.0, 20.0],
            [0.0, 0.0, -2.0, 30.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        assert_eq!(header.affine(), expected);
        header.sform_code = 2;
        header.srow = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]];
        assert_eq!(header.affine()[1], [5.0, 6.0, 7.0, 8.0]);
        (header.sform_code, header.qform_code) = (0, 0);
        assert_eq!(header.affine()[2], [0.0, 0.0, 2.0, 0.0]);
    }
}
