//! The part of gRPC that shows whether a server answers: its greeting, without a client library.
//!
//! A grpc-go server sends its SETTINGS as soon as it accepts a connection, before the client sends anything
//! (`internal/transport/http2_server.go`). Frames follow RFC 9113.

/// The size of a frame header: length, type, flags and stream.
pub const FRAME_HEADER: usize = 9;
/// The longest frame that HTTP/2 allows without a setting that permits more.
const LONGEST_FRAME: usize = 16 << 10;
const SETTINGS: u8 = 4;

/// Returns how many bytes follow the frame header of a server's greeting; `None` if it is another frame, or none.
pub fn greeting(header: [u8; FRAME_HEADER]) -> Option<usize> {
    let [l2, l1, l0, kind, flags, stream @ ..] = header;
    let length = usize::try_from(u32::from_be_bytes([0, l2, l1, l0])).ok()?;
    let is_greeting = (kind, flags, stream) == (SETTINGS, 0, [0; 4]) && length.is_multiple_of(6);
    (is_greeting && length <= LONGEST_FRAME).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_settings_of_the_connection() {
        // What grpc-go sends, 1.57 as well as 1.85: a maximum frame size of 16 KiB.
        let real = [0, 0, 6, 4, 0, 0, 0, 0, 0];
        assert_eq!(greeting(real), Some(6));
        for (at, value) in [(0, 1), (2, 5), (3, 0), (4, 1), (8, 1)] {
            let mut other = real;
            other[at] = value;
            assert_eq!(greeting(other), None, "{at}");
        }
        assert_eq!(greeting(*b"HTTP/1.1 "), None);
    }
}
