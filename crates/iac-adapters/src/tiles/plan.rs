//! What is written around the payloads of a pack of tiles.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use arrow_schema::{DataType, Field};
use iac_codec::SampleType;
use iac_format::REQUIRED_EXTENSIONS_MEMBER;
use iac_writer::Table;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::grid::{CREATED_BY, Grid, Width, index_table, slide_table};
use crate::record::CheckedRecords;
use crate::tiles::build::{TilePackBuilder, TileSize};
use crate::tiles::images::{Encoder, Found};
use crate::tiles::warnings::{self, TileWarning};
use crate::tiles::{IMAGE_TILES, IMAGE_TILES_V2};

impl TilePackBuilder {
    /// Tables and header.
    pub(super) fn plan(
        &self,
        records: &CheckedRecords,
        found: &Found,
        encoder: &Encoder,
    ) -> Result<Plan> {
        let is_old =
            found.size.is_some() && !found.is_wide && !matches!(encoder, Encoder::KeptJpeg);
        let mut header = Map::new();
        let plan = if is_old {
            self.plan_old(records, found, &mut header)?
        } else {
            self.plan_new(records, found, encoder, &mut header)?
        };
        let required = match encoder {
            Encoder::Jxl(codec) => codec.required_extensions(),
            _ => &[],
        };
        if !required.is_empty() {
            header.insert(REQUIRED_EXTENSIONS_MEMBER.to_owned(), json!(required));
        }
        header.extend(self.header.clone());
        let (slides, index, grid) = plan;
        let warnings = warnings::of_records(
            records,
            grid.as_ref().zip(found.size.map(|size| [size.width, size.height])),
        );
        Ok(Plan {
            header,
            slides,
            index,
            size: found.size,
            sizes: found.sizes.clone(),
            stride: grid.map(|grid| grid.stride),
            warnings,
        })
    }

    pub(super) fn plan_old(
        &self,
        records: &CheckedRecords,
        found: &Found,
        header: &mut Map<String, Value>,
    ) -> Result<(Table, Table, Option<Grid>)> {
        let size = found.size.unwrap_or(TileSize { width: 1, height: 1 });
        let grid =
            Grid::new(records, self.stride, [u64::from(size.width), u64::from(size.height)])?;
        for (name, value) in [
            ("payload_type", json!(IMAGE_TILES)),
            ("codec", json!("jxl")),
            ("codec_params", self.codec_params("RGB", "uint8")),
            ("tile_width", json!(size.width)),
            ("tile_height", json!(size.height)),
            ("offset_dtype", json!("uint64")),
            ("length_dtype", json!("uint32")),
            ("max_slides_per_pack", json!(grid.max_slides())),
        ] {
            header.insert(name.to_owned(), value);
        }
        grid.write_to_header(header);
        let slides = grid.slide_table(&records.slides)?;
        let index = grid.index_table(records, true, true)?;
        Ok((slides, index, Some(grid)))
    }

    pub(super) fn plan_new(
        &self,
        records: &CheckedRecords,
        found: &Found,
        encoder: &Encoder,
        header: &mut Map<String, Value>,
    ) -> Result<(Table, Table, Option<Grid>)> {
        // Whatever a grid would say of the positions, they are checked the same.
        Grid::new(records, [Some(1), Some(1)], [1, 1])?;
        let dtype = if found.is_wide { "mixed" } else { "uint8" };
        let width = match records.slides.len() {
            0..=0xff => Width::U8,
            0x100..=0xffff => Width::U16,
            _ => Width::U32,
        };
        for (name, value) in [
            ("payload_type", json!(IMAGE_TILES_V2)),
            ("tiles_schema_version", json!(2)),
            ("coordinate_mode", json!("pixel")),
            ("origin", json!("top_left")),
            ("slide_idx_dtype", json!(width.name())),
            ("checksum", json!("crc32")),
            ("created_by", json!(CREATED_BY)),
        ] {
            header.insert(name.to_owned(), value);
        }
        if let Some(size) = found.size {
            header.insert("tile_width".to_owned(), json!(size.width));
            header.insert("tile_height".to_owned(), json!(size.height));
        }
        match encoder {
            Encoder::KeptJpeg => {
                // Parameters of encoding would be made up: nobody here has encoded anything.
                header.insert("codec".to_owned(), json!("jpeg"));
            }
            _ => {
                header.insert("codec".to_owned(), json!("jxl"));
                header.insert("codec_params".to_owned(), self.codec_params("RGB", dtype));
            }
        }
        let slides = slide_table(width, &records.slides)?;
        let mut fields = vec![
            Field::new("slide_idx", width.data_type(), true),
            Field::new("px_x", DataType::Int64, true),
            Field::new("px_y", DataType::Int64, true),
            Field::new("tile_w", DataType::UInt32, true),
            Field::new("tile_h", DataType::UInt32, true),
        ];
        let index = index_table(records, &mut fields, true, true, |start, count| {
            let positions = |all: &[i64]| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(all.iter().skip(start).take(count).copied()))
            };
            let sizes = |side: fn(TileSize) -> u32| -> ArrayRef {
                let size = |row: usize| found.size_of(row).map_or(0, side);
                Arc::new(UInt32Array::from_iter_values(
                    (start..start.saturating_add(count)).map(size),
                ))
            };
            vec![
                width.array(records.slide.iter().skip(start).take(count).copied()),
                positions(&records.x),
                positions(&records.y),
                sizes(|size| size.width),
                sizes(|size| size.height),
            ]
        })?;
        Ok((slides, index, None))
    }

    /// What the header says of the codec: the caller's own values, and what the pixels are.
    pub(super) fn codec_params(&self, color_space: &str, dtype: &str) -> Value {
        json!({
            "mode": if self.lossless { "lossless" } else { "lossy" },
            "lossless": self.lossless,
            "distance": self.distance,
            "effort": self.effort,
            "tile_color_space": color_space,
            "input_dtype": dtype,
        })
    }
}

/// What is written around the payloads.
pub(super) struct Plan {
    pub(super) header: Map<String, Value>,
    pub(super) slides: Table,
    pub(super) index: Table,
    pub(super) size: Option<TileSize>,
    pub(super) sizes: Vec<TileSize>,
    pub(super) stride: Option<[u64; 2]>,
    pub(super) warnings: Vec<TileWarning>,
}

impl Plan {
    pub(super) fn size_of(&self, row: u64) -> Option<TileSize> {
        self.size.or_else(|| self.sizes.get(usize::try_from(row).ok()?).copied())
    }
}

/// What the tiles of a pack turned out to be.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    pub(super) colors: BTreeSet<&'static str>,
    pub(super) types: BTreeSet<&'static str>,
}

impl Kinds {
    pub(super) fn add(&mut self, kind: Option<(u32, SampleType)>) {
        if let Some((channels, sample_type)) = kind {
            self.colors.insert(match channels {
                1 => "gray",
                4 => "RGBA",
                _ => "RGB",
            });
            self.types.insert(sample_type.name());
        }
    }

    pub(super) fn add_payload(&mut self, encoder: &Encoder, payload: &[u8]) {
        if let Encoder::Jxl(codec) = encoder
            && let Ok(info) = codec.image_info(payload)
        {
            self.add(Some((info.shape.channels(), info.sample_type)));
        }
    }

    pub(super) fn write_to_header(&self, header: &mut Map<String, Value>) {
        let Some(Value::Object(params)) = header.get_mut("codec_params") else { return };
        for (name, found) in [("tile_color_space", &self.colors), ("input_dtype", &self.types)] {
            let value = if found.len() > 1 { Some("mixed") } else { found.first().copied() };
            if let Some(value) = value {
                params.insert(name.to_owned(), json!(value));
            }
        }
    }
}
