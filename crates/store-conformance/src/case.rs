//! The case list as data.

use crate::{Harness, Subject};

/// What a case needs of the engine; decides whether [`conformance!`](crate::conformance) stamps a test for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Every engine must pass.
    Nothing,
    /// For engines that keep shards in directories.
    Persistent,
    /// For engines that do not.
    Volatile,
}

/// A case of the engine suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The module that it is in.
    pub area: &'static str,
    /// The function's name, the same as the test's.
    pub name: &'static str,
    /// Which engines it is for.
    pub needs: Needs,
    /// Runs it; panics if the rule is broken.
    pub run: fn(&dyn Harness),
}

/// A case of a store kind.
#[derive(Clone, Copy, Debug)]
pub struct KindCase {
    /// The module that it is in.
    pub area: &'static str,
    /// The function's name, the same as the test's.
    pub name: &'static str,
    /// Runs it on an empty space; panics if the rule is broken.
    pub run: fn(&mut dyn Subject),
}

/// All cases of the engine suite.
pub const CASES: &[Case] = crate::for_each_case!([crate::__list_cases]);

/// All cases of the store kinds.
pub const KIND_CASES: &[KindCase] = crate::for_each_case!([crate::__list_kind_cases]);
