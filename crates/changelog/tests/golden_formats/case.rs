//! One case of a file, which knows what has been read of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Debug;

use serde_json::{Map, Value};

/// Nothing, or what is wrong.
pub(crate) type Outcome<T = ()> = Result<T, String>;

pub(crate) struct Case<'a> {
    fields: &'a Map<String, Value>,
    unread: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(json: &'a Value) -> Outcome<Self> {
        let fields = json.as_object().ok_or("not an object")?;
        // A note is for people.
        let unread = fields.keys().map(String::as_str).filter(|name| *name != "note").collect();
        Ok(Self { fields, unread: RefCell::new(unread) })
    }

    /// Fails if there is a field that nobody asked for.
    pub(crate) fn done(&self) -> Outcome {
        let unread = self.unread.borrow();
        if unread.is_empty() { Ok(()) } else { Err(format!("fields {unread:?} are not read")) }
    }

    /// A field that may be missing.
    pub(crate) fn find(&self, name: &str) -> Option<&'a Value> {
        self.unread.borrow_mut().remove(name);
        self.fields.get(name)
    }

    pub(crate) fn get(&self, name: &str) -> Outcome<&'a Value> {
        self.find(name).ok_or_else(|| format!("no field {name}"))
    }

    fn typed<T>(&self, name: &str, of: impl FnOnce(&'a Value) -> Option<T>) -> Outcome<T> {
        of(self.get(name)?).ok_or_else(|| format!("field {name} is of another type"))
    }

    pub(crate) fn text(&self, name: &str) -> Outcome<&'a str> {
        self.typed(name, Value::as_str)
    }

    pub(crate) fn int<T: TryFrom<i64>>(&self, name: &str) -> Outcome<T> {
        self.typed(name, |v| v.as_i64()?.try_into().ok())
    }

    pub(crate) fn flag(&self, name: &str) -> Outcome<bool> {
        self.typed(name, Value::as_bool)
    }

    pub(crate) fn bytes(&self, name: &str) -> Outcome<Vec<u8>> {
        self.typed(name, bytes_of)
    }

    pub(crate) fn map(&self, name: &str) -> Outcome<&'a Map<String, Value>> {
        self.typed(name, Value::as_object)
    }

    pub(crate) fn list(&self, name: &str) -> Outcome<&'a [Value]> {
        self.typed(name, |v| v.as_array().map(Vec::as_slice))
    }

    /// A field that is there and may be null.
    pub(crate) fn nullable<T>(&self, name: &str, of: impl FnOnce(&'a Value) -> Option<T>) -> Outcome<Option<T>> {
        self.typed(name, |v| if v.is_null() { Some(None) } else { of(v).map(Some) })
    }

    /// The class of an exception, where this case has one.
    pub(crate) fn error(&self) -> bool {
        self.find("error").is_some_and(Value::is_string)
    }

    pub(crate) fn headers(&self, name: &str) -> Outcome<Vec<Header>> {
        let header = |v: &Value| match v.as_array()?.as_slice() {
            [name, Value::Null] => Some((name.as_str()?.to_owned(), None)),
            [name, value] => Some((name.as_str()?.to_owned(), Some(bytes_of(value)?))),
            _ => None,
        };
        match self.find(name) {
            None => Ok(Vec::new()),
            Some(_) => self.typed(name, |v| v.as_array()?.iter().map(header).collect()),
        }
    }
}

/// A header's name and value.
pub(crate) type Header = (String, Option<Vec<u8>>);

pub(crate) fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let byte = |i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

pub(crate) fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Compares, and says what differs.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Outcome {
    if got == expected { Ok(()) } else { Err(format!("{what} is {got:02x?}, expected {expected:02x?}")) }
}

/// Fails unless it is so.
pub(crate) fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

/// An error as text, for `?`.
pub(crate) fn said(error: impl Debug) -> String {
    format!("{error:?}")
}
