//! DICOM files from packs of schema 2.

use bytes::Bytes;
use dicom_core::VR;

use super::filter;
use super::form::{FrameForm, Kind};
use super::payload::{self, FrameCodec};
use super::read::pixel_element;
use crate::dicom::attributes::Attributes;
use crate::dicom::export::{ExportOptions, ExportSyntax};
use crate::dicom::fault::Fault;
use crate::dicom::object::{DataSet, Element, PIXEL_DATA};
use crate::dicom::pixels::{PHOTOMETRIC, PLANAR};
use crate::dicom::prepare::padded;
use crate::dicom::read::DicomPackReader;
use crate::dicom::samples::PixelSamples;
use crate::dicom::syntax;
use crate::dicom::write::{self, PixelElement};
use crate::error::Result;

/// One object as a file, all of its frames in it.
pub(crate) fn export(
    reader: &DicomPackReader,
    row: u64,
    options: &ExportOptions,
) -> Result<Vec<u8>> {
    let attributes = reader.attributes(row)?;
    let fault = |fault: Fault| reader.fault(row, fault);
    let (mut data, meta) = attributes.restore().map_err(fault)?;
    let preamble = attributes.preamble();
    let preamble = preamble.as_deref();
    if !reader.has_pixels(row)? {
        let uid = reader.frame_syntax(row)?;
        let uid = if uid.is_empty() { syntax::EXPLICIT } else { uid };
        let pixels = reader.kept_pixels(row, &attributes)?;
        return write::file(preamble, &meta, &data, uid, pixels.as_ref()).map_err(fault);
    }
    let frames = Frames {
        reader,
        rows: reader.rows_beside(row)?.collect(),
        attributes: &attributes,
        form: reader.frame_form(row)?,
        verify: options.verify,
    };
    // Streams are interleaved, whatever the source was.
    if data.get(PLANAR).is_some() {
        data.put(Element::new(PLANAR, VR::US, vec![0, 0]));
    }
    let (uid, pixels) = frames.encode(options.syntax, &mut data)?;
    write::file(preamble, &meta, &data, &uid, pixels.as_ref()).map_err(fault)
}

struct Frames<'a> {
    reader: &'a DicomPackReader,
    rows: Vec<u64>,
    attributes: &'a Attributes,
    form: FrameForm,
    verify: bool,
}

impl Frames<'_> {
    /// The transfer syntax, and the pixel data in it; floating-point samples go into the data set.
    fn encode(
        &self,
        wanted: ExportSyntax,
        data: &mut DataSet,
    ) -> Result<(String, Option<PixelElement>)> {
        let syntax = self.possible(wanted);
        if let Some((uid, streams)) = self.stored(syntax)? {
            if uid != syntax::JXL_LOSSLESS
                && let Some(label) = self.source_label()
            {
                data.put(Element::new(PHOTOMETRIC, VR::CS, padded(label)));
            }
            return Ok((uid, Some(PixelElement::Frames(streams))));
        }
        if matches!(
            syntax,
            ExportSyntax::ExplicitLittleEndian | ExportSyntax::Deflated | ExportSyntax::Source
        ) {
            let pixels = self.native(data)?;
            return Ok((syntax.uid().to_owned(), pixels));
        }
        let mut streams = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            match self.reader.encoded(*row, syntax, self.attributes, data, self.verify)? {
                PixelElement::Encapsulated(stream) => streams.push(stream),
                _ => return Err(self.reader.fault(*row, Fault::decode("is not encapsulated"))),
            }
        }
        Ok((syntax.uid().to_owned(), Some(PixelElement::Frames(streams))))
    }

    /// The syntax, or samples as they are where it cannot hold them.
    fn possible(&self, wanted: ExportSyntax) -> ExportSyntax {
        match (self.form.kind, wanted) {
            (Kind::Words, wanted)
            | (_, wanted @ (ExportSyntax::Source | ExportSyntax::Deflated)) => wanted,
            (Kind::Longs, ExportSyntax::Rle) => wanted,
            _ => ExportSyntax::ExplicitLittleEndian,
        }
    }

    fn source_label(&self) -> Option<&str> {
        self.attributes.delta.iac.get("source_photometric").and_then(serde_json::Value::as_str)
    }

    /// Streams that are written as the pack holds them; nothing where it holds others.
    fn stored(&self, syntax: ExportSyntax) -> Result<Option<(String, Vec<Bytes>)>> {
        let mut codecs = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            codecs.push(self.reader.frame_codec(*row)?);
        }
        let first = self.rows.first().copied().unwrap_or(0);
        let source = self.reader.frame_syntax(first)?;
        let all = |wanted: &[FrameCodec]| codecs.iter().all(|codec| wanted.contains(codec));
        let plain = all(&[FrameCodec::Jxl]);
        let uid = match syntax {
            ExportSyntax::JpegXl if plain => syntax::JXL_LOSSLESS,
            ExportSyntax::JpegXl if all(&[FrameCodec::JxlJpeg]) => syntax::JXL_JPEG,
            ExportSyntax::JpegXl
                if all(&[FrameCodec::Source]) && source == syntax::JXL_LOSSLESS =>
            {
                source
            }
            ExportSyntax::Source if all(&[FrameCodec::Source, FrameCodec::JxlJpeg]) => source,
            _ => return Ok(None),
        };
        let rebuild = syntax == ExportSyntax::Source;
        let mut streams = Vec::with_capacity(self.rows.len());
        for (row, codec) in self.rows.iter().zip(&codecs) {
            if self.verify {
                self.reader.read_pixels(*row)?;
            }
            let stored = self.reader.reader().read(*row)?;
            streams.push(if rebuild && *codec == FrameCodec::JxlJpeg {
                let limits = self.reader.images().limits;
                payload::rebuilt(&stored, &limits)
                    .map_err(|fault| self.reader.fault(*row, fault))?
            } else {
                stored
            });
        }
        Ok(Some((uid.to_owned(), streams)))
    }

    /// Samples as they are.
    fn native(&self, data: &mut DataSet) -> Result<Option<PixelElement>> {
        let first = self.rows.first().copied().unwrap_or(0);
        let mut bytes = Vec::new();
        let mut bits = Vec::new();
        for row in &self.rows {
            let pixels = self.reader.read_pixels(*row)?;
            match (&pixels.samples, self.form.kind) {
                (PixelSamples::U8(samples), Kind::Bits) => {
                    // Whole bytes are packed at once; what is left waits for the next frame.
                    bits.extend_from_slice(samples);
                    let whole = bits.len().saturating_sub(bits.len() % 8);
                    let rest = bits.split_off(whole);
                    bytes.extend(filter::pack_bits(&bits));
                    bits = rest;
                }
                _ => {
                    let (words, _) = self.reader.stored_words(*row, &pixels, self.attributes)?;
                    bytes.extend_from_slice(&words);
                }
            }
        }
        bytes.extend(filter::pack_bits(&bits));
        let rest = self.attributes.rest.as_ref();
        if let Some(tail) = rest
            .map(|rest| rest.tail(self.attributes))
            .transpose()
            .map_err(|fault| self.reader.fault(first, fault))?
            .flatten()
        {
            bytes.extend_from_slice(&tail);
        }
        let element = pixel_element(&self.form);
        if element != PIXEL_DATA {
            let vr = if self.form.kind == Kind::Floats(8) { VR::OD } else { VR::OF };
            data.put(Element::new(element, vr, bytes));
            return Ok(None);
        }
        let byte = self.form.pixel_type().bytes() == 1;
        Ok(Some(PixelElement::Native(if byte { VR::OB } else { VR::OW }, bytes.into())))
    }
}
