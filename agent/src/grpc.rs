//! The part of gRPC that shows whether a server answers: its greeting, and one call, without a client library.
//!
//! A grpc-go server sends its SETTINGS as soon as it accepts a connection, before the client sends anything
//! (`internal/transport/http2_server.go`). Frames follow RFC 9113, headers RFC 7541, requests and responses
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

/// The size of a frame header: length, type, flags and stream.
pub const FRAME_HEADER: usize = 9;
/// The longest frame that HTTP/2 allows without a setting that permits more.
const LONGEST_FRAME: usize = 16 << 10;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// The stream of the only call.
const CALL_STREAM: u32 = 1;

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
    pub fn is_greeting(self) -> bool {
        self.kind == SETTINGS
            && self.flags == 0
            && self.stream == 0
            && self.length.is_multiple_of(6)
    }

    /// Returns what the frame says about the call; `None` if it says nothing.
    pub fn verdict(self) -> Option<Verdict> {
        match (self.kind, self.stream) {
            // A response also counts if it denies the path, which csi-proxy does depending on its flags.
            (HEADERS, CALL_STREAM) => Some(Verdict::Answered),
            (RST_STREAM, CALL_STREAM) | (GOAWAY, _) => Some(Verdict::Refused),
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

/// The method of csi-proxy's filesystem group that [`CALL`] calls. It changes nothing.
pub const METHOD: &str = "/v1.Filesystem/PathExists";
/// All bytes that a client sends to call [`METHOD`] for the kubelet's folder, the only one that csi-proxy serves unless it has
/// other flags. Read the greeting first: csi-proxy's pipes have no buffer, so a write waits for its reader.
///
/// After the preface there are three frames, each with length, type, flags and stream: SETTINGS without content; HEADERS with
/// POST, http, `:path`, `:authority` and `content-type` by their indexes in the static table, and `te`; DATA with the compression
/// flag, the length of the message, and the message, whose field 1 is the path.
pub const CALL: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\x48\x01\x04\0\0\0\x01\
    \x83\x86\x04\x19/v1.Filesystem/PathExists\x01\x09localhost\
    \x0f\x10\x10application/grpc\0\x02te\x08trailers\
    \0\0\x19\0\x01\0\0\0\x01\
    \0\0\0\0\x14\x0a\x12C:\\var\\lib\\kubelet";

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u8 = 0;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

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
            (HEADERS, END_HEADERS, CALL_STREAM, 20, Some(Answered)),
            (
                HEADERS,
                END_HEADERS | END_STREAM,
                CALL_STREAM,
                30,
                Some(Answered),
            ),
            (HEADERS, END_HEADERS, 3, 20, None),
            (RST_STREAM, 0, CALL_STREAM, 4, Some(Refused)),
            (GOAWAY, 0, 0, 8, Some(Refused)),
        ] {
            let stream = u8::try_from(stream).unwrap();
            let frame = frame(&[0, 0, length, kind, flags, 0, 0, 0, stream]).unwrap();
            assert_eq!(frame.verdict(), verdict, "{frame:?}");
        }
    }

    #[test]
    fn the_call_is_a_preface_and_three_frames_of_the_lengths_that_they_name() {
        let mut rest = CALL
            .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (header, content) = rest.split_at(FRAME_HEADER);
            let frame = Frame::parse(header.try_into().unwrap()).unwrap();
            let (content, after) = content.split_at(frame.length);
            frames.push((frame.kind, frame.flags, frame.stream, content));
            rest = after;
        }
        let [settings, headers, data] = frames.try_into().unwrap();
        assert_eq!(settings, (SETTINGS, 0, 0, &[][..]));
        let (kind, flags, stream, mut content) = headers;
        assert_eq!((kind, flags, stream), (HEADERS, END_HEADERS, CALL_STREAM));
        // By their indexes in the static table, or by name: each has its length in front.
        content = content.strip_prefix(&[0x83, 0x86]).unwrap();
        for (name, value) in [
            (&[0x04][..], METHOD),
            (&[0x01], "localhost"),
            (&[0x0f, 0x10], "application/grpc"),
            (b"\x00\x02te", "trailers"),
        ] {
            content = content.strip_prefix(name).unwrap();
            let (length, after) = content.split_first().unwrap();
            let (text, after) = after.split_at(usize::from(*length));
            assert_eq!(text, value.as_bytes());
            content = after;
        }
        assert!(content.is_empty());
        let message = b"\0\0\0\0\x14\x0a\x12C:\\var\\lib\\kubelet";
        assert_eq!(data, (DATA, END_STREAM, CALL_STREAM, &message[..]));
    }
}
