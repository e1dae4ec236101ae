use std::io::Cursor;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

/// Neither all alike nor without any pattern, and larger than the decoder's window.
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

/// Unpacks what is announced as `content`.
fn try_unpack(packed: &[u8], content: &[u8]) -> (Result<(), UnpackError>, Vec<u8>) {
    let mut written = Vec::new();
    let sha256 = sha256(content);
    let announced = Announced {
        size: content.len() as u64,
        sha256: &sha256,
    };
    (unpack(packed, &mut written, announced), written)
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
            // A bit of the frame's own checksum or content size may not matter: the announced sum decides.
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
    // A block of one byte, 128 KiB times, again and again: small to bring, without an end to write.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3];
    for _ in 0..1000 {
        // Not the last, run-length, 128 KiB.
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
    let sha256 = sha256(&content);
    let announced = Announced {
        size: content.len() as u64,
        sha256: &sha256,
    };
    let full = unpack(
        packed(&content).as_slice(),
        Cursor::new(&mut room[..]),
        announced,
    );
    assert!(matches!(full, Err(UnpackError::Write(_))), "{full:?}");
}

mod arriving {
    use std::fs::{File, remove_file};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A place for a file, which goes with it.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            Self(std::env::temp_dir().join(format!("arriving-{}-{count}", std::process::id())))
        }

        /// A file of which half has arrived, and was read.
        fn half_of_it(&self, deadline: Instant) -> Arriving {
            let packed = packed(&content()[..100_000]);
            let half = packed.len() / 2;
            std::fs::write(&self.0, &packed[..half]).unwrap();
            let mut arriving = Arriving::new(self.0.clone(), packed.len() as u64, deadline);
            let mut buffer = vec![0; packed.len()];
            assert_eq!(arriving.read(&mut buffer).unwrap(), half);
            arriving
        }

        fn unpack(
            &self,
            size: usize,
            content: &[u8],
            patience: Duration,
        ) -> Result<(), UnpackError> {
            let deadline = Instant::now() + patience;
            let source = Arriving::new(self.0.clone(), size as u64, deadline);
            let sha256 = sha256(content);
            let announced = Announced {
                size: content.len() as u64,
                sha256: &sha256,
            };
            unpack(source, io::sink(), announced)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = remove_file(&self.0);
        }
    }

    #[test]
    fn what_comes_piece_by_piece_is_waited_for() {
        let content = content();
        let packed = packed(&content);
        let place = Place::new();
        thread::scope(|scope| {
            let unpacking = scope.spawn(|| place.unpack(packed.len(), &content, PATIENCE));
            let mut file = File::create(&place.0).unwrap();
            for piece in packed.chunks(packed.len() / 7) {
                file.write_all(piece).unwrap();
                thread::yield_now();
            }
            unpacking.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_does_not_come_whole_is_no_damage() {
        let content = &content()[..100_000];
        let packed = packed(content);
        let place = Place::new();
        let late = place.unpack(packed.len(), content, Duration::from_millis(20));
        let Err(UnpackError::Read(error)) = late else {
            panic!("{late:?}")
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        std::fs::write(&place.0, &packed[..packed.len() / 2]).unwrap();
        let half = place.unpack(packed.len(), content, Duration::from_millis(20));
        let Err(UnpackError::Read(error)) = half else {
            panic!("{half:?}")
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn what_no_longer_grows_is_given_up_before_the_deadline() {
        let place = Place::new();
        let deadline = Instant::now() + PATIENCE;
        let mut arriving = place.half_of_it(deadline);
        arriving.patience = Duration::from_millis(20);
        let error = arriving.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(Instant::now() < deadline, "it was not the deadline");
    }

    #[test]
    fn what_is_taken_back_is_not_waited_for() {
        let place = Place::new();
        let mut arriving = place.half_of_it(Instant::now() + PATIENCE);
        remove_file(&place.0).unwrap();
        let error = arriving.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
