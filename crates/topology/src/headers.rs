//! Record headers: an ordered list of names and values, free when empty, copied on write.

use std::sync::Arc;

use bytes::Bytes;

/// One header.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The name; may occur more than once in a record.
    pub name: Box<str>,
    /// The value; Kafka allows null.
    pub value: Option<Bytes>,
}

/// Headers are business data: the output shows sizes only.
impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("name_len", &self.name.len())
            .field("value_len", &self.value.as_ref().map(Bytes::len))
            .finish()
    }
}

/// The headers of a record, in order. Clones share one list until one of them is changed, so a header that one branch adds
/// is not seen by another.
///
/// ```
/// use millpond_topology::Headers;
///
/// let mut headers = Headers::new();
/// headers.add("source", "gate-7");
/// let copy = headers.clone();
/// headers.add("source", "gate-8");
/// assert_eq!(headers.get("source").and_then(|h| h.value.as_deref()), Some(&b"gate-8"[..]));
/// assert_eq!(copy.len(), 1);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Option<Arc<Vec<Header>>>);

impl Headers {
    /// No headers; allocates nothing.
    pub const fn new() -> Self {
        Self(None)
    }

    /// True if there is no header.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The number of headers.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// All headers, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.as_slice().iter()
    }

    /// The last header of this name, as Kafka's `lastHeader`.
    pub fn get(&self, name: &str) -> Option<&Header> {
        self.iter().rev().find(|h| &*h.name == name)
    }

    /// Adds a header behind the others.
    pub fn add(&mut self, name: impl Into<Box<str>>, value: impl Into<Bytes>) {
        self.push(Header { name: name.into(), value: Some(value.into()) });
    }

    /// Adds a header behind the others; its value may be null.
    pub fn push(&mut self, header: Header) {
        Arc::make_mut(self.0.get_or_insert_default()).push(header);
    }

    /// Removes all headers of this name.
    pub fn remove(&mut self, name: &str) {
        if self.get(name).is_none() {
            return;
        }
        if let Some(list) = &mut self.0 {
            Arc::make_mut(list).retain(|h| &*h.name != name);
        }
        if self.is_empty() {
            self.0 = None;
        }
    }

    fn as_slice(&self) -> &[Header] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        let list: Vec<_> = headers.into_iter().collect();
        Self((!list.is_empty()).then(|| Arc::new(list)))
    }
}

/// Headers are business data: the output shows their number only.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headers").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_do_not_see_each_others_changes() {
        let mut one = Headers::new();
        one.add("a", "1");
        let mut two = one.clone();
        two.add("b", "2");
        two.remove("a");
        assert_eq!((one.len(), two.len()), (1, 1));
        assert!(one.get("b").is_none());
        assert!(two.get("a").is_none());
    }

    #[test]
    fn the_last_of_a_name_counts_and_null_values_are_kept() {
        let mut headers = Headers::new();
        headers.add("a", "1");
        headers.push(Header { name: "a".into(), value: None });
        assert_eq!(headers.get("a").map(|h| h.value.is_none()), Some(true));
        headers.remove("a");
        assert_eq!(headers, Headers::new());
    }

    #[test]
    fn debug_shows_no_data() {
        let mut headers = Headers::new();
        headers.add("secret-name", "secret-value");
        assert!(!format!("{headers:?} {:?}", headers.get("secret-name")).contains("secret"));
    }
}
