use std::io::Cursor;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

/// Content that is neither uniform nor random, and larger than the decoder's window.
fn content() -> Vec<u8> {
    let mut state = 1_u32;
    (0..9_000_000_u32)
        .map(|index| {
            if index % 5 == 0 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            }
            state.to_be_bytes()[0]
        })
        .collect()
}

fn packed(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

fn sha256(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// Unpacks `packed`, announced as `content`.
fn try_unpack(packed: &[u8], content: &[u8]) -> (Result<(), UnpackError>, Vec<u8>) {
    let mut written = Vec::new();
    let result = unpack(packed, &mut written, content.len() as u64, &sha256(content));
    (result, written)
}

#[test]
fn content_comes_back_whole() {
    for content in [content(), b"x".to_vec(), Vec::new()] {
        let (result, written) = try_unpack(&packed(&content), &content);
        result.unwrap();
        assert!(written == content);
    }
}

fn assert_refused(result: &Result<(), UnpackError>, why: &str) {
    assert!(
        matches!(result, Err(UnpackError::Content(text)) if text.contains(why)),
        "{result:?}"
    );
}

#[test]
fn content_of_another_size_or_sum_is_refused() {
    let content = content();
    let packed = packed(&content);
    let (longer, written) = try_unpack(&packed, &content[..1_000_000]);
    assert_refused(&longer, "bytes or more, not");
    assert!(
        written.len() <= 1_000_000,
        "more was written than announced"
    );
    let more = [content.as_slice(), b"x"].concat();
    let (shorter, _) = try_unpack(&packed, &more);
    assert_refused(&shorter, "bytes or more, not");
    let mut other = content.clone();
    other[77] ^= 1;
    let (changed, _) = try_unpack(&packed, &other);
    assert_refused(&changed, "as announced");
}

#[test]
fn a_file_that_ends_anywhere_is_refused() {
    let content = &content()[..150_000];
    let packed = packed(content);
    for length in (0..packed.len()).step_by(1997).chain([packed.len() - 1]) {
        let (cut, _) = try_unpack(&packed[..length], content);
        assert_refused(&cut, "ends before its content");
    }
    let (longer, _) = try_unpack(&[packed.as_slice(), b"x"].concat(), content);
    assert_refused(&longer, "goes on after its end");
}

#[test]
fn what_is_damaged_is_refused_and_nothing_panics() {
    let content = &content()[..30_000];
    let packed = packed(content);
    for place in (0..packed.len()).step_by(37) {
        for bit in [0, 3, 7] {
            let mut damaged = packed.clone();
            damaged[place] ^= 1 << bit;
            // A changed bit in the frame's own checksum or content size may not matter: the announced SHA-256 decides.
            let (result, written) = try_unpack(&damaged, content);
            assert!(
                result.is_err() || written == content,
                "byte {place} bit {bit}"
            );
        }
    }
    let (none, _) = try_unpack(b"MZ is no frame of Zstandard", content);
    assert_refused(&none, "cannot be unpacked");
}

#[test]
fn a_frame_that_wants_much_memory_is_refused_before_it_gets_any() {
    // Magic number, descriptor, window descriptor: exponent 17 stands for 2^27 bytes. Source: RFC 8878, section 3.1.1.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x01, 0x00, 0x00];
    let (refused, _) = try_unpack(&frame, b"");
    assert_refused(&refused, "too much memory");
    // A block of one byte, repeated 128 KiB times, again and again: small to upload, endless to write.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3];
    for _ in 0..1000 {
        // Not the last block, run-length encoded, 128 KiB.
        let header: u32 = (1 << 1) | ((128 << 10) << 3);
        bomb.extend(&header.to_le_bytes()[..3]);
        bomb.push(0);
    }
    let (refused, written) = try_unpack(&bomb, &vec![0; 1_000_000]);
    assert_refused(&refused, "bytes or more, not");
    assert!(written.len() <= 1_000_000);
}

#[test]
fn a_full_disk_is_another_error_than_a_bad_file() {
    let content = content();
    let mut room = [0_u8; 1000];
    let full = unpack(
        packed(&content).as_slice(),
        Cursor::new(&mut room[..]),
        content.len() as u64,
        &sha256(&content),
    );
    assert!(matches!(full, Err(UnpackError::Write(_))), "{full:?}");
}
