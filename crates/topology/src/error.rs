//! The one error of the record path: what nodes, serdes and stores give back, and what a task's border sorts by kind.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use millpond_store_api as store;

use crate::names::short_type;

/// What the caller does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An input record's bytes are not what its serde expects: ask the deserialization handler.
    Deserialization,
    /// A value does not go through its serde: ask the handler that belongs to the output or to the node.
    Serialization,
    /// A store failed: look at [`Error::store`], its kind says whether to retry, restore or stop.
    Store,
    /// The user's code failed: ask the processing handler.
    Processing,
    /// The program is wrong (a handle of another topology, an unknown child): tell the user, do not retry.
    Topology,
    /// A buffer holds more than its limit, and is to stop the program then: stop, and let the user raise the limit.
    Full,
}

impl ErrorKind {
    /// A short name for messages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deserialization => "bytes do not deserialize",
            Self::Serialization => "value does not serialize",
            Self::Store => "store error",
            Self::Processing => "processing error",
            Self::Topology => "wrong use of the topology",
            Self::Full => "a buffer is full",
        }
    }
}

/// The result of everything on the record path.
pub type Result<T = ()> = std::result::Result<T, Error>;

const _: () = assert!(size_of::<Result>() == size_of::<usize>(), "a result without a value travels in a register");

type Source = Box<dyn std::error::Error + Send + Sync>;
type SharedSource = Arc<dyn std::error::Error + Send + Sync>;

/// An error of the record path: kind, operation, node, context and cause; one pointer wide.
///
/// It does not implement [`std::error::Error`], so that `?` turns *any* such error into it: a store's error keeps its type
/// and gets the kind [`ErrorKind::Store`], every other one is [`ErrorKind::Processing`]. Where a standard error is needed,
/// `Box<dyn std::error::Error + Send + Sync>` is made from it by `?` or `into()`.
///
/// ```
/// use millpond_topology::{Error, ErrorKind, Result};
///
/// fn parse(text: &str) -> Result<i64> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").unwrap_err().kind(), ErrorKind::Processing);
/// assert_eq!(Error::other("no such customer").kind(), ErrorKind::Processing);
/// ```
///
/// A clone shares the cause.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    op: &'static str,
    node: Option<Box<str>>,
    context: Vec<(&'static str, String)>,
    source: Option<SharedSource>,
}

impl Error {
    /// An error of the operation `op`, a short verb phrase such as `decode the key`.
    #[cold]
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, node: None, context: Vec::new(), source: None }))
    }

    /// A [`ErrorKind::Processing`] error from a text or any other error: for processors that find something wrong.
    /// The text must not hold a record's key or value, it ends up in logs.
    #[cold]
    pub fn other(source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::Processing, "process").caused_by(source)
    }

    /// Adds a fact for the message. Never a record's key or value: state is business data.
    #[must_use]
    #[cold]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    #[cold]
    pub fn caused_by(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The name of the innermost node that failed; none if it happened outside of any.
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// The facts given by [`Error::with`], in order.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// Takes a fact out of the message, to say it elsewhere.
    #[cold]
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.context.iter().position(|(known, _)| *known == key)?;
        Some(self.0.context.remove(at).1)
    }

    /// The cause.
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// The cause, if it is of this type.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.source.as_ref()?.downcast_ref()
    }

    /// The store's error, if this is [`ErrorKind::Store`].
    pub fn store(&self) -> Option<&store::Error> {
        self.downcast_ref()
    }

    /// Says where it happened; the first, innermost node wins.
    #[must_use]
    #[cold]
    pub(crate) fn at(mut self, node: &str) -> Self {
        self.0.node.get_or_insert_with(|| node.into());
        self
    }

    /// The error of a serde: what came up as the user's own error is one of reading or writing bytes. What the serde itself was
    /// doing is kept as a `step`, and the type is named: of serdes within serdes, that of the innermost.
    #[must_use]
    #[cold]
    pub(crate) fn in_serde<T>(mut self, kind: ErrorKind, op: &'static str) -> Self {
        const TYPE: &str = "type";
        let own = match self.0.kind {
            ErrorKind::Processing => None,
            ErrorKind::Deserialization | ErrorKind::Serialization => Some(self.0.op),
            _ => return self,
        };
        self.0.kind = kind;
        if self.0.context.iter().any(|(key, _)| *key == TYPE) {
            return self;
        }
        self.0.op = op;
        let named = match own {
            Some(step) => self.with("step", step),
            None => self,
        };
        named.with(TYPE, short_type(std::any::type_name::<T>()))
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    #[cold]
    fn from(error: E) -> Self {
        let is_store = Any::type_id(&error) == TypeId::of::<store::Error>();
        let (kind, op) = if is_store { (ErrorKind::Store, "use a store") } else { (ErrorKind::Processing, "process") };
        Self::new(kind, op).caused_by(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.0.op, self.0.kind.name())?;
        self.0.context.iter().try_for_each(|(k, v)| write!(f, " {k}=`{v}`"))?;
        self.0.node.iter().try_for_each(|node| write!(f, " node=`{node}`"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source:?}"),
            None => Ok(()),
        }
    }
}

impl From<Error> for Source {
    fn from(error: Error) -> Self {
        Box::new(Standard(error))
    }
}

/// What an [`Error`] is where only standard errors are taken.
struct Standard(Error);

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Standard {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_comes_in_by_question_mark_and_is_found_again() {
        fn store() -> Result {
            Err(store::Error::new(store::ErrorKind::Io, "read"))?;
            Ok(())
        }
        let error = store().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert_eq!(error.store().map(store::Error::kind), Some(store::ErrorKind::Io));

        fn own() -> Result<i64> {
            Ok("x".parse::<i64>()?)
        }
        let error = own().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Processing);
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
        assert!(error.store().is_none());
    }

    #[test]
    fn the_innermost_node_is_named_and_the_message_ends_with_facts() {
        let mut error = Error::new(ErrorKind::Topology, "find a child").with("child", "audit").with("fix", "name it");
        assert_eq!((error.take("fix").as_deref(), error.take("fix")), (Some("name it"), None));
        let error = error.at("inner").at("outer");
        assert_eq!(error.node(), Some("inner"));
        assert_eq!(error.to_string(), "find a child failed: wrong use of the topology child=`audit` node=`inner`");
    }

    #[test]
    fn an_error_of_a_serde_says_what_was_read_and_keeps_what_the_serde_said() {
        let read = |error: Error| {
            let inner = error.in_serde::<i64>(ErrorKind::Deserialization, "decode the key");
            inner.in_serde::<Vec<i64>>(ErrorKind::Deserialization, "decode the value")
        };
        let plain = read(Error::other("too short"));
        assert_eq!(plain.to_string(), "decode the key failed: bytes do not deserialize type=`i64`");
        let own = read(Error::new(ErrorKind::Serialization, "read JSON").with("line", 1));
        let text = "decode the key failed: bytes do not deserialize line=`1` step=`read JSON` type=`i64`";
        assert_eq!((own.kind(), own.to_string().as_str()), (ErrorKind::Deserialization, text));
        assert_eq!(read(Error::new(ErrorKind::Topology, "use")).op(), "use");
    }

    #[test]
    fn it_goes_where_standard_errors_go() {
        fn outer() -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Err(Error::other("broken"))?;
            Ok(())
        }
        let error = outer().unwrap_err();
        assert_eq!(error.to_string(), "process failed: processing error");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("broken"));
    }
}
