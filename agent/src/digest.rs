//! Hashes as people write them.

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| {
            [
                digits[usize::from(byte >> 4)],
                digits[usize::from(byte & 15)],
            ]
        })
        .map(char::from)
        .collect()
}
