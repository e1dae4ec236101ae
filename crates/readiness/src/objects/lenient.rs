//! Fields that are only hints, such as which driver a container runs. A value of an unexpected type is ignored and is not
//! an error.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that falls back to its default if the input has another type.
#[derive(Default)]
pub struct Lenient<T>(pub T);

/// Converts values of the expected type.
pub trait Shown<'de>: Default {
    /// Converts a string.
    #[must_use]
    fn of_text(_: &str) -> Self {
        Self::default()
    }

    /// Converts a boolean.
    #[must_use]
    fn of_bool(_: bool) -> Self {
        Self::default()
    }

    /// Converts a list.
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    /// Converts an object.
    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl Shown<'_> for String {
    fn of_text(text: &str) -> Self {
        text.to_owned()
    }
}

impl Shown<'_> for Option<bool> {
    fn of_bool(value: bool) -> Self {
        Some(value)
    }
}

impl Shown<'_> for Option<String> {
    fn of_text(text: &str) -> Self {
        Some(text.to_owned())
    }
}

impl<'de, T: Shown<'de>> Shown<'de> for Vec<T> {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut items = Self::new();
        while let Some(Lenient(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(items)
    }
}

impl<'de, T: Shown<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(Any(PhantomData));
        value.map(Self)
    }
}

struct Any<T>(PhantomData<T>);

impl<'de, T: Shown<'de>> Visitor<'de> for Any<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::of_bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::of_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::of_object(object)
    }
}
