//! The part of gRPC that shows whether a server answers: its greeting, and one call, without a client library.
//!
//! A grpc-go server sends its SETTINGS as soon as it accepts a connection, before the client sends anything
//! (`internal/transport/http2_server.go`). Frames follow RFC 9113, headers RFC 7541, requests and responses
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

/// The size of a frame header: length, type, flags and stream.
pub const FRAME_HEADER: usize = 9;
/// The longest frame that HTTP/2 allows without a setting that permits more.
const LONGEST_FRAME: usize = 16 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The stream of the only call.
const CALL: u32 = 1;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of bytes that follow the header.
    pub length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    /// Parses a frame header; `None` if no HTTP/2 server would send it.
    #[must_use]
    pub fn parse(header: [u8; FRAME_HEADER]) -> Option<Self> {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = header;
        let length = usize::try_from(u32::from_be_bytes([0, l2, l1, l0])).ok()?;
        let stream = u32::from_be_bytes([s3, s2, s1, s0]);
        (length <= LONGEST_FRAME).then_some(Self {
            length,
            kind,
            flags,
            stream,
        })
    }

    /// Returns whether the frame is a server's greeting.
    #[must_use]
    pub fn is_greeting(self) -> bool {
        self.kind == SETTINGS
            && self.flags == 0
            && self.stream == 0
            && self.length.is_multiple_of(6)
    }

    /// Returns what the frame says about the call; `None` if it says nothing.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        match (self.kind, self.stream) {
            // A response also counts if it denies the path, which csi-proxy does depending on its flags.
            (HEADERS, CALL) => Some(Verdict::Answered),
            (RST_STREAM, CALL) | (GOAWAY, _) => Some(Verdict::Refused),
            _ => None,
        }
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a response, whatever its content.
    Answered,
    /// There will be no response.
    Refused,
}

/// Returns all bytes that a client sends to call `method`, such as `/v1.Filesystem/PathExists`, with a message whose first
/// field is `text`. Read the greeting first: csi-proxy's pipes have no buffer, so a write waits for its reader.
///
/// # Panics
/// Panics if `method` or `text` has more than 100 bytes; none that the agent uses does.
#[must_use]
pub fn call(method: &str, text: &str) -> Vec<u8> {
    let short = |length: usize| {
        assert!(length <= 100, "it needs another encoding");
        u8::try_from(length).unwrap_or_default()
    };
    // By their indexes in the static table: POST, http, :path, :authority, content-type.
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [
        (&[0x04][..], method),
        (&[0x01], "localhost"),
        (&[0x0f, 0x10], "application/grpc"),
        (b"\x00\x02te", "trailers"),
    ] {
        headers.extend_from_slice(name);
        headers.push(short(value.len()));
        headers.extend_from_slice(value.as_bytes());
    }
    // The compression flag, the length of the message, then the message: field 1, of type bytes.
    let mut message = vec![0, 0, 0, 0, short(text.len() + 2), 0x0a, short(text.len())];
    message.extend_from_slice(text.as_bytes());

    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    for (kind, flags, stream, content) in [
        (SETTINGS, 0, 0, &[][..]),
        (HEADERS, END_HEADERS, CALL, &headers),
        (DATA, END_STREAM, CALL, &message),
    ] {
        let length = u32::try_from(content.len())
            .unwrap_or_default()
            .to_be_bytes();
        sent.extend_from_slice(&length[1..]);
        sent.extend_from_slice(&[kind, flags]);
        sent.extend_from_slice(&u32::to_be_bytes(stream));
        sent.extend_from_slice(content);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(header: &[u8]) -> Option<Frame> {
        let mut whole = [0; FRAME_HEADER];
        whole[..header.len()].copy_from_slice(header);
        Frame::parse(whole)
    }

    #[test]
    fn a_greeting_is_settings_of_the_connection() {
        // What grpc-go sends, 1.57 as well as 1.85: a maximum frame size of 16 KiB.
        let real = [0, 0, 6, 4, 0, 0, 0, 0, 0];
        assert!(frame(&real).unwrap().is_greeting());
        for (at, value) in [(2, 5), (3, 0), (4, 1), (8, 1)] {
            let mut other = real;
            other[at] = value;
            assert!(!frame(&other).unwrap().is_greeting(), "{at}");
        }
        assert_eq!(frame(b"HTTP/1.1 "), None);
    }

    #[test]
    fn a_response_is_an_answer_whatever_it_says() {
        use Verdict::{Answered, Refused};
        for (kind, flags, stream, length, verdict) in [
            (SETTINGS, 1, 0, 0, None),
            (HEADERS, END_HEADERS, CALL, 20, Some(Answered)),
            (HEADERS, END_HEADERS | END_STREAM, CALL, 30, Some(Answered)),
            (HEADERS, END_HEADERS, 3, 20, None),
            (RST_STREAM, 0, CALL, 4, Some(Refused)),
            (GOAWAY, 0, 0, 8, Some(Refused)),
        ] {
            let stream = u8::try_from(stream).unwrap();
            let frame = frame(&[0, 0, length, kind, flags, 0, 0, 0, stream]).unwrap();
            assert_eq!(frame.verdict(), verdict, "{frame:?}");
        }
    }

    #[test]
    fn a_call_is_a_preface_and_three_frames() {
        let sent = call("/v1.Filesystem/PathExists", r"C:\k");
        let mut rest = sent
            .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        let mut kinds = Vec::new();
        while !rest.is_empty() {
            let (header, content) = rest.split_at(FRAME_HEADER);
            let frame = Frame::parse(header.try_into().unwrap()).unwrap();
            kinds.push(frame.kind);
            rest = &content[frame.length..];
        }
        assert_eq!(kinds, [SETTINGS, HEADERS, DATA]);
        assert!(sent.ends_with(b"\0\0\0\0\x06\x0a\x04C:\\k"));
    }
}
