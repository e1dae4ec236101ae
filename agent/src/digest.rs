//! Formats hashes as hexadecimal text.

/// Returns bytes as lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
