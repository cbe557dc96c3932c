//! What the compiler tells a newcomer about common mistakes: the messages are part of the interface.
//!
//! When the compiler words them anew: `TRYBUILD=overwrite cargo test -p millpond-topology --test messages`, and read them.

#[test]
fn mistakes_are_told_so_that_a_newcomer_understands() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
