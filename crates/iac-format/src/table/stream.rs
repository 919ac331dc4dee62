//! Finds the messages of a stream: framing and flatbuffer envelope, no content.

use std::ops::Range;

use arrow_ipc::{Message, MetadataVersion, root_as_message};

use super::fault::{Check, Fault};

/// The word in front of each metadata length since Arrow 0.15.
const CONTINUATION: u32 = u32::MAX;

/// Where a message lies in the stream.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// First byte of its framing.
    pub(super) start: usize,
    /// Its flatbuffer.
    pub(super) metadata: Range<usize>,
    /// Its buffers.
    pub(super) body: Range<usize>,
}

/// Goes from message to message.
#[derive(Debug)]
pub(super) struct Walk<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Walk<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes passed so far; after the end that includes the end marker.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// The next message, or nothing at the end marker or at the exact end of the bytes.
    pub(super) fn next(&mut self) -> Check<Option<(Place, Message<'b>)>> {
        let start = self.at;
        if start == self.bytes.len() {
            return Ok(None);
        }
        let place = format!("message at byte {start}");
        self.message(start).map_err(|fault| fault.within(&place))
    }

    fn message(&mut self, start: usize) -> Check<Option<(Place, Message<'b>)>> {
        let mut length = self.word()?;
        if length == CONTINUATION {
            length = self.word()?;
        }
        if length == 0 {
            return Ok(None);
        }
        // The length is a signed number in the format.
        let length = i32::try_from(length)
            .ok()
            .and_then(|length| usize::try_from(length).ok())
            .ok_or_else(|| Fault::damaged("the metadata length is negative"))?;
        let metadata = self.take(length, "metadata")?;
        let message = message_at(self.bytes, &metadata)?;
        let length = usize::try_from(message.bodyLength()).map_err(|_| {
            Fault::damaged(format!("the body length {} is not a size", message.bodyLength()))
        })?;
        let body = self.take(length, "a body")?;
        Ok(Some((Place { start, metadata, body }, message)))
    }

    fn word(&mut self) -> Check<u32> {
        let range = self.take(4, "framing")?;
        let word = self
            .bytes
            .get(range)
            .and_then(|bytes| bytes.first_chunk::<4>())
            .ok_or_else(|| Fault::damaged("the framing is cut"))?;
        Ok(u32::from_le_bytes(*word))
    }

    fn take(&mut self, length: usize, what: &str) -> Check<Range<usize>> {
        let left = self.bytes.len().saturating_sub(self.at);
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or_else(
            || Fault::damaged(format!("{length} bytes of {what} expected, {left} bytes left")),
        )?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }
}

/// The verified message whose flatbuffer lies at `metadata`.
pub(super) fn message_at<'b>(bytes: &'b [u8], metadata: &Range<usize>) -> Check<Message<'b>> {
    let bytes = bytes
        .get(metadata.clone())
        .ok_or_else(|| Fault::damaged("the metadata lies outside the stream"))?;
    let message = root_as_message(bytes).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Fault::damaged(format!("the metadata is not a valid flatbuffer ({first})"))
    })?;
    match message.version() {
        MetadataVersion::V4 | MetadataVersion::V5 => Ok(message),
        MetadataVersion(version @ 0..=2) => Err(Fault::unsupported(format!(
            "metadata version V{} is not supported (V4 and V5 are)",
            i32::from(version).saturating_add(1)
        ))),
        MetadataVersion(version) => {
            Err(Fault::damaged(format!("metadata version number {version} is not known")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(bytes: &[u8]) -> String {
        match Walk::new(bytes).next() {
            Err(Fault::Damaged(reason)) => reason,
            other => panic!("{:?}", other.map(|_| ())),
        }
    }

    #[test]
    fn both_end_markers_end_the_walk() {
        for (bytes, length) in [
            (&[0_u8; 4][..], 4),
            (&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..], 8),
            (&[][..], 0),
            (&[0, 0, 0, 0, 1, 2, 3][..], 4),
        ] {
            let mut walk = Walk::new(bytes);
            assert!(walk.next().unwrap().is_none());
            assert_eq!(walk.position(), length);
        }
    }

    #[test]
    fn cut_framing_is_reported_with_its_place() {
        assert_eq!(
            reason(&[0xff, 0xff]),
            "message at byte 0: 4 bytes of framing expected, 2 bytes left"
        );
        assert_eq!(
            reason(&[0xff, 0xff, 0xff, 0xff, 1]),
            "message at byte 0: 4 bytes of framing expected, 1 bytes left"
        );
        assert_eq!(
            reason(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80]),
            "message at byte 0: the metadata length is negative"
        );
        assert_eq!(
            reason(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            "message at byte 0: 2147483647 bytes of metadata expected, 0 bytes left"
        );
    }

    #[test]
    fn garbage_metadata_is_no_flatbuffer() {
        let mut bytes = vec![0xff, 0xff, 0xff, 0xff, 16, 0, 0, 0];
        bytes.extend([0xaa; 16]);
        assert!(reason(&bytes).contains("not a valid flatbuffer"));
    }
}
