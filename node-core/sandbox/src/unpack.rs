//! Reads MessagePack as `rmp_serde` writes it, and nothing else: a struct is an array of its fields, a variant its
//! name, or a map from its name to its content.
//!
//! `rmp_serde` itself takes whatever comes and asks each type what that is to it: each then brings code for maps,
//! names of fields and numbers of all kinds, which never come. That was nearly half of the code of a page's node.

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::fmt::Display;

/// Arrays, maps and variants within each other. Our choice: several times what any message or row of ours has.
const DEPTH: u32 = 64;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it ends too early")]
    Ends,
    #[error("something follows it")]
    Follows,
    #[error("it is nested too deeply")]
    Deep,
    #[error("byte {0:#04x} is not the beginning of {1}")]
    Begins(u8, &'static str),
    #[error("{0} more than belong there")]
    Excess(usize),
    #[error("a text is not UTF-8")]
    Text,
    #[error("a number that is too large, or has the wrong sign")]
    Number,
    /// In the words of the type that was to be read.
    #[error("{0}")]
    Unfit(String),
}

type Result<T> = std::result::Result<T, Unreadable>;

impl de::Error for Unreadable {
    fn custom<T: Display>(why: T) -> Unreadable {
        Unreadable::Unfit(why.to_string())
    }
}

/// The value that these bytes are.
///
/// # Errors
/// They are no such value, or more follows it.
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let mut reader = Reader { rest: bytes, depth: DEPTH };
    let value = T::deserialize(&mut reader)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(Unreadable::Follows) }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Levels that may still be entered.
    depth: u32,
}

/// Code that does not depend on the type that is read: it is linked once.
impl<'a> Reader<'a> {
    fn peek(&self) -> Result<u8> {
        self.rest.first().copied().ok_or(Unreadable::Ends)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Unreadable::Ends)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Big-endian.
    fn unsigned(&mut self, bytes: usize) -> Result<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn marker(&mut self) -> Result<u8> {
        self.unsigned(1).map(|marker| marker as u8)
    }

    fn length(&mut self, bytes: usize) -> Result<usize> {
        self.unsigned(bytes).map(|length| length as usize)
    }

    fn integer(&mut self) -> Result<i128> {
        Ok(match self.marker()? {
            small @ ..=0x7f => small.into(),
            small @ 0xe0.. => (small as i8).into(),
            marker @ 0xcc..=0xcf => self.unsigned(1 << (marker - 0xcc))?.into(),
            marker @ 0xd0..=0xd3 => {
                let bytes = 1 << (marker - 0xd0);
                let unused = 64 - 8 * bytes;
                ((self.unsigned(bytes)? << unused) as i64 >> unused).into()
            }
            other => return Err(Unreadable::Begins(other, "an integer")),
        })
    }

    fn u64(&mut self) -> Result<u64> {
        self.integer()?.try_into().map_err(|_| Unreadable::Number)
    }

    fn i64(&mut self) -> Result<i64> {
        self.integer()?.try_into().map_err(|_| Unreadable::Number)
    }

    /// As `rmp_serde` writes integers of 128 bits.
    fn wide(&mut self) -> Result<[u8; 16]> {
        self.bytes()?.try_into().map_err(|_| Unreadable::Number)
    }

    fn f32(&mut self) -> Result<f32> {
        match self.marker()? {
            0xca => self.unsigned(4).map(|bits| f32::from_bits(bits as u32)),
            other => Err(Unreadable::Begins(other, "a number of 32 bits with a point")),
        }
    }

    fn f64(&mut self) -> Result<f64> {
        match self.marker()? {
            0xcb => self.unsigned(8).map(f64::from_bits),
            other => Err(Unreadable::Begins(other, "a number with a point")),
        }
    }

    fn bool(&mut self) -> Result<bool> {
        match self.marker()? {
            0xc2 => Ok(false),
            0xc3 => Ok(true),
            other => Err(Unreadable::Begins(other, "yes or no")),
        }
    }

    /// Nothing, if it is that.
    fn nil(&mut self) -> Result<bool> {
        let nil = self.peek()? == 0xc0;
        self.rest = &self.rest[usize::from(nil)..];
        Ok(nil)
    }

    fn text(&mut self) -> Result<&'a str> {
        let length = match self.marker()? {
            short @ 0xa0..=0xbf => usize::from(short & 0x1f),
            long @ 0xd9..=0xdb => self.length(1 << (long - 0xd9))?,
            other => return Err(Unreadable::Begins(other, "a text")),
        };
        str::from_utf8(self.take(length)?).map_err(|_| Unreadable::Text)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = match self.marker()? {
            marker @ 0xc4..=0xc6 => self.length(1 << (marker - 0xc4))?,
            other => return Err(Unreadable::Begins(other, "bytes")),
        };
        self.take(length)
    }

    fn enter(&mut self) -> Result<()> {
        self.depth = self.depth.checked_sub(1).ok_or(Unreadable::Deep)?;
        Ok(())
    }

    fn enter_array(&mut self) -> Result<usize> {
        self.enter()?;
        match self.marker()? {
            short @ 0x90..=0x9f => Ok(usize::from(short & 0xf)),
            0xdc => self.length(2),
            0xdd => self.length(4),
            other => Err(Unreadable::Begins(other, "an array")),
        }
    }

    fn enter_map(&mut self) -> Result<usize> {
        self.enter()?;
        match self.marker()? {
            short @ 0x80..=0x8f => Ok(usize::from(short & 0xf)),
            0xde => self.length(2),
            0xdf => self.length(4),
            other => Err(Unreadable::Begins(other, "a map")),
        }
    }

    /// A variant. `true`: with content.
    fn enter_variant(&mut self) -> Result<bool> {
        self.enter()?;
        let has_content = self.peek()? == 0x81;
        self.rest = &self.rest[usize::from(has_content)..];
        Ok(has_content)
    }

    /// Back to where one was before `enter`.
    fn leave(&mut self, unread: usize) -> Result<()> {
        self.depth += 1;
        if unread == 0 { Ok(()) } else { Err(Unreadable::Excess(unread)) }
    }
}

macro_rules! reads {
    ($($deserialize:ident: $read:ident, $visit:ident;)+) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.$read()?)
        }
    )+};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Unreadable;

    reads! {
        deserialize_bool: bool, visit_bool;
        deserialize_u8: u64, visit_u64;
        deserialize_u16: u64, visit_u64;
        deserialize_u32: u64, visit_u64;
        deserialize_u64: u64, visit_u64;
        deserialize_i8: i64, visit_i64;
        deserialize_i16: i64, visit_i64;
        deserialize_i32: i64, visit_i64;
        deserialize_i64: i64, visit_i64;
        deserialize_f32: f32, visit_f32;
        deserialize_f64: f64, visit_f64;
        deserialize_char: text, visit_str;
        deserialize_str: text, visit_borrowed_str;
        deserialize_string: text, visit_borrowed_str;
        deserialize_identifier: text, visit_str;
        deserialize_bytes: bytes, visit_borrowed_bytes;
        deserialize_byte_buf: bytes, visit_borrowed_bytes;
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_u128(u128::from_be_bytes(self.wide()?))
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_i128(i128::from_be_bytes(self.wide()?))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.nil()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.nil()? { visitor.visit_unit() } else { Err(Unreadable::Begins(self.peek()?, "nothing")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        let unread = self.enter_array()?;
        self.leave(unread)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let left = self.enter_array()?;
        let mut array = Elements { reader: self, left };
        let value = visitor.visit_seq(&mut array)?;
        array.reader.leave(array.left)?;
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let left = self.enter_map()?;
        let mut map = Elements { reader: self, left };
        let value = visitor.visit_map(&mut map)?;
        map.reader.leave(map.left)?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let has_content = self.enter_variant()?;
        let value = visitor.visit_enum(Variant { reader: self, has_content })?;
        self.leave(0)?;
        Ok(value)
    }

    /// For types that were written in more than one way.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek()? {
            ..=0x7f | 0xcc..=0xcf => self.deserialize_u64(visitor),
            0xe0.. | 0xd0..=0xd3 => self.deserialize_i64(visitor),
            0x80..=0x8f | 0xde | 0xdf => self.deserialize_map(visitor),
            0x90..=0x9f | 0xdc | 0xdd => self.deserialize_seq(visitor),
            0xa0..=0xbf | 0xd9..=0xdb => self.deserialize_str(visitor),
            0xc0 => self.deserialize_unit(visitor),
            0xc2 | 0xc3 => self.deserialize_bool(visitor),
            0xc4..=0xc6 => self.deserialize_bytes(visitor),
            0xca => self.deserialize_f32(visitor),
            0xcb => self.deserialize_f64(visitor),
            other => Err(Unreadable::Begins(other, "a value")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The rest of an array or a map.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
}

impl Elements<'_, '_> {
    fn next(&mut self) -> bool {
        let more = self.left > 0;
        self.left -= usize::from(more);
        more
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Unreadable;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.next() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    /// Each has a byte at least.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(self.reader.rest.len()))
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Unreadable;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        SeqAccess::size_hint(self)
    }
}

struct Variant<'r, 'de> {
    reader: &'r mut Reader<'de>,
    has_content: bool,
}

impl<'r, 'de> Variant<'r, 'de> {
    fn content(self) -> Result<&'r mut Reader<'de>> {
        if self.has_content { Ok(self.reader) } else { Err(Unreadable::Ends) }
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Unreadable;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self)> {
        Ok((seed.deserialize(&mut *self.reader)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Unreadable;

    fn unit_variant(self) -> Result<()> {
        if self.has_content { Err(Unreadable::Excess(1)) } else { Ok(()) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        de::Deserializer::deserialize_seq(self.content()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        de::Deserializer::deserialize_seq(self.content()?, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Bare,
        New(u64),
        Pair(i64, Option<String>),
        Named { at: Vec<Kind>, nothing: () },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nothing;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Later {
        old: u8,
        #[serde(default)]
        new: u8,
    }

    fn survives<T: Serialize + for<'a> Deserialize<'a> + PartialEq + Debug>(value: T) {
        let bytes = rmp_serde::to_vec(&value).unwrap();
        assert_eq!(from_slice::<T>(&bytes), Ok(value));
        // No part of it is it, and nothing may follow.
        for end in 0..bytes.len() {
            assert!(from_slice::<T>(&bytes[..end]).is_err());
        }
        assert_eq!(from_slice::<T>(&[&bytes[..], &[0xc0]].concat()), Err(Unreadable::Follows));
    }

    #[test]
    fn what_was_written_is_read() {
        for number in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, u64::from(u32::MAX) + 1, u64::MAX] {
            survives(number);
            survives(Kind::New(number));
        }
        for number in [0, -1, -32, -33, -128, -129, -32_769, i64::from(i32::MIN) - 1, i64::MIN, i64::MAX] {
            survives(number);
        }
        survives((u8::MAX, u16::MAX, u32::MAX, i8::MIN, i16::MIN, i32::MIN, u128::MAX, i128::MIN));
        survives((1.5f32, -0.1f64, true, false, 'ß', Nothing, ()));
        for length in [0, 1, 31, 32, 255, 256, 65_535, 65_536] {
            survives("x".repeat(length));
        }
        survives((vec![Some(1u8), None], [1u8, 200], Box::new(Kind::Bare)));
        survives((0..40u16).map(|n| (n, n.to_string())).collect::<BTreeMap<_, _>>());
        survives(Kind::Named { at: vec![Kind::Bare, Kind::Pair(-7, None), Kind::New(9)], nothing: () });
        survives(Kind::Pair(0, Some("text".into())));
    }

    #[test]
    fn bytes_are_borrowed() {
        for length in [0, 255, 256, 70_000] {
            let content = bytes::Bytes::from(vec![7; length]);
            let written = rmp_serde::to_vec(&content).unwrap();
            assert_eq!(from_slice::<bytes::Bytes>(&written), Ok(content));
        }
    }

    #[test]
    fn fields_that_an_earlier_version_did_not_write_have_their_defaults() {
        let earlier = rmp_serde::to_vec(&(7u8,)).unwrap();
        assert_eq!(from_slice::<Later>(&earlier), Ok(Later { old: 7, new: 0 }));
        let later = rmp_serde::to_vec(&(7u8, 8u8, 9u8)).unwrap();
        assert_eq!(from_slice::<Later>(&later), Err(Unreadable::Excess(1)));
    }

    #[test]
    fn what_is_not_written_so_is_refused() {
        assert!(from_slice::<u8>(&[0xcd, 1, 0]).is_err());
        assert_eq!(from_slice::<u64>(&[0xff]), Err(Unreadable::Number));
        assert_eq!(from_slice::<i64>(&[0xcf, 255, 0, 0, 0, 0, 0, 0, 0]), Err(Unreadable::Number));
        assert_eq!(from_slice::<String>(&[0xa1, 0xff]), Err(Unreadable::Text));
        assert_eq!(from_slice::<bool>(&[1]), Err(Unreadable::Begins(1, "yes or no")));
        // A struct with names, a variant with content that has none, one without that should have, an unknown one.
        assert!(from_slice::<Later>(&[0x81, 0xa3, b'o', b'l', b'd', 7]).is_err());
        assert!(from_slice::<Kind>(&[0x81, 0xa4, b'B', b'a', b'r', b'e', 0xc0]).is_err());
        assert!(from_slice::<Kind>(&[0xa3, b'N', b'e', b'w']).is_err());
        assert!(from_slice::<Kind>(&[0xa3, b'O', b'l', b'd']).is_err());
        // A length that nobody could send takes no memory.
        assert_eq!(from_slice::<Vec<u64>>(&[0xdd, 255, 255, 255, 255]), Err(Unreadable::Ends));
    }

    #[test]
    fn depth_has_a_bound() {
        let nested = |levels: usize| {
            let mut bytes = Vec::new();
            for _ in 0..levels {
                bytes.extend_from_slice(b"\x81\xa5Named\x92\x91");
            }
            bytes.extend_from_slice(b"\xa4Bare");
            bytes.resize(bytes.len() + levels, 0xc0);
            from_slice::<Kind>(&bytes)
        };
        assert!(nested(20).is_ok());
        assert_eq!(nested(22), Err(Unreadable::Deep));
        assert_eq!(nested(100_000), Err(Unreadable::Deep));
    }
}
