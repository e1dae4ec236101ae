//! Scalars to values, as `kubectl` understands them: YAML 1.1 as go-yaml 2 has it.

use serde_json::{Number, Value};

use super::error::Problem;
use super::events::{Scalar, Style};

/// The value of a scalar.
pub(super) fn value(scalar: Scalar) -> Result<Value, Problem> {
    let Scalar { text, style } = scalar;
    match style {
        Style::Text => Ok(Value::String(text)),
        Style::Plain => Ok(match resolve(&text) {
            Some(value) => value,
            None => Value::String(text),
        }),
        Style::Null => tagged(&text, "null", Value::is_null),
        Style::Bool => tagged(&text, "boolean", Value::is_boolean),
        Style::Int => tagged(&text, "whole number", |value| {
            value.is_i64() || value.is_u64()
        }),
        Style::Float => tagged(&text, "number", Value::is_number),
        Style::Json => serde_json::from_str(&text).map_err(|_| not(&text, "number")),
    }
}

/// A document of which there is nothing parses as a null without a word.
pub(super) fn is_nothing(scalar: &Scalar) -> bool {
    scalar.style == Style::Plain && matches!(scalar.text.as_str(), "" | "~" | "null")
}

fn tagged(
    text: &str,
    wanted: &'static str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value, Problem> {
    resolve(text).filter(fits).ok_or_else(|| not(text, wanted))
}

fn not(text: &str, wanted: &'static str) -> Problem {
    Problem::Scalar {
        text: text.chars().take(64).collect(),
        wanted,
    }
}

/// What a scalar without quotes means; nothing if it is text. Neither infinity nor NaN has a place in JSON: they stay text.
fn resolve(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => {
            return Some(Value::Bool(true));
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off" | "OFF" => {
            return Some(Value::Bool(false));
        }
        _ => {}
    }
    match text.as_bytes() {
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text).map(Value::Number),
        _ => None,
    }
}

fn number(text: &str) -> Option<Number> {
    let plain = if text.contains('_') && !text.starts_with('.') {
        text.replace('_', "")
    } else {
        text.to_owned()
    };
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, &plain[1..]),
        Some(b'+') => (false, &plain[1..]),
        _ => (false, plain.as_str()),
    };
    whole(negative, digits).or_else(|| fraction(&plain, digits))
}

fn whole(negative: bool, digits: &str) -> Option<Number> {
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'o' | b'O', ..] => (&digits[2..], 8),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        // File modes are written so.
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // A second sign would pass otherwise.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(size).map(Number::from)
    } else {
        Some(Number::from(size))
    }
}

fn fraction(plain: &str, digits: &str) -> Option<Number> {
    // Rust's parser takes "inf", "nan" and "infinity" as well.
    let looks_right = digits
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !looks_right || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    plain.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(text: &str) -> Value {
        of(text, Style::Plain).unwrap()
    }

    fn of(text: &str, style: Style) -> Result<Value, Problem> {
        value(Scalar {
            text: text.to_owned(),
            style,
        })
    }

    #[test]
    fn plain_scalars_are_what_they_look_like() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("null", json!(null)),
            ("true", json!(true)),
            ("yes", json!(true)),
            ("off", json!(false)),
            ("123", json!(123)),
            ("-5", json!(-5)),
            ("+5", json!(5)),
            ("0", json!(0)),
            ("0644", json!(420)),
            ("0o644", json!(420)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1.", json!(1.0)),
            ("1e3", json!(1000.0)),
            ("089", json!(89.0)),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_stays_text() {
        for text in [
            "v1",
            "1Gi",
            "100m",
            "1.2.3",
            "-",
            "+",
            ".",
            "..",
            "--1",
            "+-1",
            "0x",
            "0xg",
            "0o9",
            "1e",
            "e1",
            "2024-01-01",
            "2024-01-01T00:00:00Z",
            "12:30",
            ".nan",
            ".inf",
            "-.inf",
            "inf",
            "NaN",
            "nan",
            "-inf",
            "+infinity",
            "1e999",
            "tRue",
            "nUll",
            "yEs",
            "10.0.0.1",
            "0b2",
        ] {
            assert_eq!(plain(text), json!(text), "{text}");
        }
    }

    #[test]
    fn quoted_scalars_are_text() {
        for text in ["", "null", "true", "123", "~"] {
            assert_eq!(of(text, Style::Text).unwrap(), json!(text));
        }
    }

    #[test]
    fn tags_are_held_to() {
        assert_eq!(of("12", Style::Int).unwrap(), json!(12));
        assert_eq!(of("12", Style::Float).unwrap(), json!(12));
        assert_eq!(of("no", Style::Bool).unwrap(), json!(false));
        assert_eq!(of("", Style::Null).unwrap(), json!(null));
        for (text, style) in [
            ("x", Style::Int),
            ("1.5", Style::Int),
            ("x", Style::Float),
            ("1", Style::Bool),
            ("x", Style::Null),
        ] {
            let error = of(text, style).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no ")), "{error}");
        }
    }

    #[test]
    fn json_literals() {
        assert_eq!(of("-1.5e2", Style::Json).unwrap(), json!(-150.0));
        assert_eq!(of("true", Style::Json).unwrap(), json!(true));
        assert!(of("1e999", Style::Json).is_err());
    }
}
