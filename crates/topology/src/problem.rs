//! What is wrong with a topology: all of it together.

use std::fmt;

/// What sort of mistake it is.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// A parent that is not there (parents are added before their children).
    UnknownParent,
    /// A node takes another type than its parent forwards.
    TypeMismatch,
    /// Two nodes, stores or internal topics have one name, or two sources read one topic.
    Clash,
    /// A name breaks Kafka's rules.
    IllegalName,
    /// A store or an internal topic has a generated name where that is [refused](crate::Builder::ensure_explicit_names).
    GeneratedName,
    /// A store handle of another topology, a store that no processor uses, or one that cannot be what it is said to be.
    Store,
    /// A serde is needed and nobody named it.
    MissingSerde,
    /// The graph cannot be run: nothing to read, too deep, or a number out of range.
    Shape,
}

/// One mistake in a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What sort of mistake it is.
    pub kind: ProblemKind,
    /// Names both sides and, where there is one, the remedy.
    pub message: String,
}

/// Why [`Builder::build`](crate::Builder::build) refuses a topology: every mistake in it, in the order they were made.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    problems: Vec<Problem>,
}

impl BuildError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// All mistakes; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.problems {
            [only] => write!(f, "the topology is wrong: {}", only.message),
            all => {
                write!(f, "the topology is wrong in {} places", all.len())?;
                all.iter().enumerate().try_for_each(|(i, p)| write!(f, "\n{}. {}", i + 1, p.message))
            }
        }
    }
}

/// As the text: this is what a program prints that returns it from `main`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
