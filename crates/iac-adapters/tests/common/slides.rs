//! Files of slides that are made up for tests: TIFF pages without compression, DICOM objects.

/// A page of a TIFF file: RGB without compression.
pub(crate) struct TiffPage<'a> {
    /// Its description.
    pub(crate) text: &'a str,
    /// Pixels of a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// The side of its tiles; 0 for one strip.
    pub(crate) tile: u32,
    /// Further tags with bytes as values, which are longer than 4.
    pub(crate) tags: Vec<(u16, Vec<u8>)>,
}

/// A value of the page's tiles: the pixel at a place of the tile with a number.
pub(crate) fn tile_value(number: u32, at: u32) -> u8 {
    (at / 3 % 200 + number) as u8
}

/// A TIFF file of uncompressed RGB pages: description, width, height, tile side (0: one strip).
pub(crate) fn tiff(pages: &[(&str, u32, u32, u32)]) -> Vec<u8> {
    let pages: Vec<TiffPage<'_>> = pages
        .iter()
        .map(|(text, width, height, tile)| TiffPage {
            text,
            width: *width,
            height: *height,
            tile: *tile,
            tags: Vec::new(),
        })
        .collect();
    tiff_of(&pages)
}

/// The same with further tags.
pub(crate) fn tiff_of(pages: &[TiffPage<'_>]) -> Vec<u8> {
    let mut bytes = b"II*\0\0\0\0\0".to_vec();
    let mut link = 4;
    for page in pages {
        let TiffPage { text, width, height, tile, tags: extra } = page;
        let mut offsets = Vec::new();
        let (across, down, part) = match tile {
            0 => (1, 1, width * height * 3),
            side => (width.div_ceil(*side), height.div_ceil(*side), side * side * 3),
        };
        for number in 0..across * down {
            offsets.push(bytes.len() as u32);
            bytes.extend((0..part).map(|at| tile_value(number, at)));
        }
        let mut placed = |values: &[u8]| {
            let at = bytes.len() as u32;
            bytes.extend_from_slice(values);
            at
        };
        let words =
            |numbers: &[u32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
        let count = across * down;
        let text_at = placed(format!("{text}\0").as_bytes());
        let (offsets_at, counts_at) = if count == 1 {
            (offsets[0], part)
        } else {
            (placed(&words(&offsets)), placed(&words(&vec![part; count as usize])))
        };
        let bits_at = placed(&[8, 0, 8, 0, 8, 0]);
        let mut tags = vec![
            (256, 4, 1, *width),
            (257, 4, 1, *height),
            (258, 3, 3, bits_at),
            (259, 3, 1, 1),
            (262, 3, 1, 2),
            (270, 2, text.len() as u32 + 1, text_at),
            (277, 3, 1, 3),
        ];
        for (tag, values) in extra {
            tags.push((*tag, 7, values.len() as u32, placed(values)));
        }
        if *tile == 0 {
            tags.extend([(273, 4, 1, offsets_at), (278, 4, 1, *height), (279, 4, 1, counts_at)]);
        } else {
            tags.extend([(322, 4, 1, *tile), (323, 4, 1, *tile)]);
            tags.extend([(324, 4, count, offsets_at), (325, 4, count, counts_at)]);
        }
        let at = bytes.len() as u32;
        bytes[link..link + 4].copy_from_slice(&at.to_le_bytes());
        bytes.extend((tags.len() as u16).to_le_bytes());
        for (tag, kind, count, value) in tags {
            bytes.extend(tag.to_le_bytes());
            bytes.extend((kind as u16).to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        link = bytes.len();
        bytes.extend([0; 4]);
    }
    bytes
}

/// The pixels of such a page of tiles: rows of RGB.
pub(crate) fn tiff_pixels(width: u32, height: u32, tile: u32) -> Vec<u8> {
    let across = width.div_ceil(tile);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let number = y / tile * across + x / tile;
            let at = (y % tile * tile + x % tile) * 3;
            pixels.extend((0..3).map(|channel| tile_value(number, at + channel)));
        }
    }
    pixels
}

/// Elements of a DICOM data set, explicit and little-endian, in the order in which they are added.
#[derive(Clone, Default)]
pub(crate) struct Elements(Vec<u8>);

impl Elements {
    pub(crate) fn put(mut self, group: u16, element: u16, vr: &str, value: &[u8]) -> Self {
        let mut value = value.to_vec();
        if value.len() % 2 == 1 {
            value.push(if matches!(vr, "UI" | "OB" | "OW") { 0 } else { b' ' });
        }
        self.0.extend(group.to_le_bytes());
        self.0.extend(element.to_le_bytes());
        self.0.extend(vr.as_bytes());
        if matches!(vr, "OB" | "OW" | "SQ" | "UN" | "UT") {
            self.0.extend([0, 0]);
            self.0.extend((value.len() as u32).to_le_bytes());
        } else {
            self.0.extend((value.len() as u16).to_le_bytes());
        }
        self.0.extend(value);
        self
    }

    pub(crate) fn text(self, group: u16, element: u16, vr: &str, text: &str) -> Self {
        self.put(group, element, vr, text.as_bytes())
    }

    pub(crate) fn short(self, group: u16, element: u16, number: u16) -> Self {
        self.put(group, element, "US", &number.to_le_bytes())
    }

    pub(crate) fn long(self, group: u16, element: u16, number: u32) -> Self {
        self.put(group, element, "UL", &number.to_le_bytes())
    }

    pub(crate) fn items(self, group: u16, element: u16, items: &[Self]) -> Self {
        let mut value = Vec::new();
        for item in items {
            value.extend([0xFE, 0xFF, 0x00, 0xE0]);
            value.extend((item.0.len() as u32).to_le_bytes());
            value.extend(&item.0);
        }
        self.put(group, element, "SQ", &value)
    }

    /// Encapsulated pixel data, a fragment for each frame.
    pub(crate) fn fragments(mut self, frames: &[Vec<u8>]) -> Self {
        self.0.extend([0xE0, 0x7F, 0x10, 0x00, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        self.0.extend([0xFE, 0xFF, 0x00, 0xE0, 0, 0, 0, 0]);
        for frame in frames {
            let padded = frame.len() + frame.len() % 2;
            self.0.extend([0xFE, 0xFF, 0x00, 0xE0]);
            self.0.extend((padded as u32).to_le_bytes());
            self.0.extend(frame);
            self.0.resize(self.0.len() + padded - frame.len(), 0);
        }
        self.0.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
        self
    }

    /// A file with this data set.
    pub(crate) fn file(self, syntax: &str) -> Vec<u8> {
        let meta = Self::default().text(2, 0x10, "UI", syntax);
        [vec![0; 128], b"DICM".to_vec(), meta.0, self.0].concat()
    }
}

/// An object of a slide, of frames of 8-bit RGB.
#[derive(Clone)]
pub(crate) struct DicomSlide<'a> {
    pub(crate) series: &'a str,
    /// `VOLUME`, `LABEL`, ...
    pub(crate) flavor: &'a str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Width and height of frames.
    pub(crate) tile: (u16, u16),
    pub(crate) frames: u32,
    pub(crate) photometric: &'a str,
    pub(crate) optical_paths: &'a [&'a str],
    pub(crate) focal_planes: u32,
    /// Uid, number of files, and the first frame's number.
    pub(crate) concatenation: Option<(&'a str, u16, u32)>,
    /// Column, row, height and optical path of each frame; none for all tiles in order.
    pub(crate) places: Option<Vec<(i32, i32, &'a str, &'a str)>>,
}

impl Default for DicomSlide<'_> {
    fn default() -> Self {
        Self {
            series: "1.2.3",
            flavor: "VOLUME",
            width: 20,
            height: 10,
            tile: (8, 6),
            frames: 6,
            photometric: "RGB",
            optical_paths: &["1"],
            focal_planes: 1,
            concatenation: None,
            places: None,
        }
    }
}

impl DicomSlide<'_> {
    /// The elements before the pixel data.
    pub(crate) fn elements(&self) -> Elements {
        let paths: Vec<Elements> = self
            .optical_paths
            .iter()
            .map(|it| {
                Elements::default()
                    .put(0x28, 0x2000, "OB", format!("profile of {it}").as_bytes())
                    .text(0x48, 0x0106, "SH", it)
            })
            .collect();
        let measures = Elements::default().text(0x28, 0x0030, "DS", "0.0005\\0.00025");
        let shared = Elements::default().items(0x28, 0x9110, &[measures]);
        let mut made = Elements::default()
            .text(0x08, 0x0008, "CS", &format!("ORIGINAL\\PRIMARY\\{}\\NONE", self.flavor))
            .text(0x08, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.77.1.6")
            .text(0x08, 0x0070, "LO", "Maker")
            .text(0x10, 0x0010, "PN", "Nobody^Here")
            .text(0x20, 0x000E, "UI", self.series);
        if let Some((uid, parts, _)) = self.concatenation {
            made = made.text(0x20, 0x9161, "UI", uid).short(0x20, 0x9163, parts);
        }
        if let Some((_, _, first)) = self.concatenation {
            made = made.long(0x20, 0x9228, first);
        }
        let kind = if self.places.is_some() { "TILED_SPARSE" } else { "TILED_FULL" };
        made = made
            .text(0x20, 0x9311, "CS", kind)
            .short(0x28, 0x0002, 3)
            .text(0x28, 0x0004, "CS", self.photometric)
            .short(0x28, 0x0006, 0)
            .text(0x28, 0x0008, "IS", &self.frames.to_string())
            .short(0x28, 0x0010, self.tile.1)
            .short(0x28, 0x0011, self.tile.0)
            .short(0x28, 0x0100, 8)
            .short(0x28, 0x0101, 8)
            .short(0x28, 0x0102, 7)
            .short(0x28, 0x0103, 0)
            .long(0x48, 0x0006, self.width)
            .long(0x48, 0x0007, self.height)
            .items(0x48, 0x0105, &paths)
            .long(0x48, 0x0303, self.focal_planes)
            .items(0x5200, 0x9229, &[shared]);
        if let Some(places) = &self.places {
            let groups: Vec<Elements> = places
                .iter()
                .map(|(column, row, z, path)| {
                    let position = Elements::default()
                        .text(0x40, 0x074A, "DS", z)
                        .put(0x48, 0x021E, "SL", &column.to_le_bytes())
                        .put(0x48, 0x021F, "SL", &row.to_le_bytes());
                    let path = Elements::default().text(0x48, 0x0106, "SH", path);
                    Elements::default().items(0x48, 0x021A, &[position]).items(
                        0x48,
                        0x0207,
                        &[path],
                    )
                })
                .collect();
            made = made.items(0x5200, 0x9230, &groups);
        }
        made
    }

    /// A file with frames that are not compressed; all pixels of a frame have one value.
    pub(crate) fn native(&self, values: &[u8]) -> Vec<u8> {
        let samples = usize::from(self.tile.0) * usize::from(self.tile.1) * 3;
        let pixels: Vec<u8> =
            values.iter().flat_map(|it| std::iter::repeat_n(*it, samples)).collect();
        self.elements().put(0x7FE0, 0x0010, "OB", &pixels).file("1.2.840.10008.1.2.1")
    }
}
