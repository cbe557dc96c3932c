//! Names: Kafka Streams' numbering of generated ones, and which ones are legal.

/// The prefixes of generated names, Kafka Streams' own (`kstream/internals`).
pub(crate) mod prefix {
    pub(crate) const STREAM_SOURCE: &str = "KSTREAM-SOURCE-";
    pub(crate) const STREAM_SINK: &str = "KSTREAM-SINK-";
    pub(crate) const FILTER: &str = "KSTREAM-FILTER-";
    pub(crate) const MAP: &str = "KSTREAM-MAP-";
    pub(crate) const MAP_VALUES: &str = "KSTREAM-MAPVALUES-";
    pub(crate) const FLAT_MAP: &str = "KSTREAM-FLATMAP-";
    pub(crate) const FLAT_MAP_VALUES: &str = "KSTREAM-FLATMAPVALUES-";
    pub(crate) const PEEK: &str = "KSTREAM-PEEK-";
    pub(crate) const PRINTER: &str = "KSTREAM-PRINTER-";
    pub(crate) const FOREACH: &str = "KSTREAM-FOREACH-";
    pub(crate) const KEY_SELECT: &str = "KSTREAM-KEY-SELECT-";
    pub(crate) const DEDUP: &str = "KSTREAM-DEDUPLICATE-";
    pub(crate) const MERGE: &str = "KSTREAM-MERGE-";
    pub(crate) const BRANCH: &str = "KSTREAM-BRANCH-";
    pub(crate) const REPARTITION: &str = "KSTREAM-REPARTITION-";
    pub(crate) const PROCESSOR: &str = "KSTREAM-PROCESSOR-";
    pub(crate) const PROCESS_VALUES: &str = "KSTREAM-PROCESSVALUES-";
    pub(crate) const AGGREGATE: &str = "KSTREAM-AGGREGATE-";
    pub(crate) const REDUCE: &str = "KSTREAM-REDUCE-";
    pub(crate) const TO_TABLE: &str = "KSTREAM-TOTABLE-";
    pub(crate) const COGROUP_AGGREGATE: &str = "COGROUPKSTREAM-AGGREGATE-";
    pub(crate) const COGROUP_MERGE: &str = "COGROUPKSTREAM-MERGE-";
    pub(crate) const TABLE_SOURCE: &str = "KTABLE-SOURCE-";
    pub(crate) const TABLE_FILTER: &str = "KTABLE-FILTER-";
    pub(crate) const TABLE_MAP_VALUES: &str = "KTABLE-MAPVALUES-";
    pub(crate) const TABLE_TRANSFORM_VALUES: &str = "KTABLE-TRANSFORMVALUES-";
    pub(crate) const TABLE_SELECT: &str = "KTABLE-SELECT-";
    pub(crate) const TABLE_AGGREGATE: &str = "KTABLE-AGGREGATE-";
    pub(crate) const TABLE_REDUCE: &str = "KTABLE-REDUCE-";
    pub(crate) const SUPPRESS: &str = "KTABLE-SUPPRESS-";
    pub(crate) const TO_STREAM: &str = "KTABLE-TOSTREAM-";
    /// Kafka Streams has no such operator.
    pub(crate) const LATE: &str = "KSTREAM-LATE-";
    pub(crate) const STORE: &str = "STATE-STORE-";
}

/// The one counter of a builder. Names are stable as long as the program calls the same operators in the same order, since
/// topics are called after them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    next: u32,
    /// All that were generated.
    made: Vec<String>,
}

impl Names {
    /// The next generated name.
    pub(crate) fn generate(&mut self, prefix: &str) -> String {
        let name = format!("{prefix}{:010}", self.next);
        self.next += 1;
        self.made.push(name.clone());
        name
    }

    /// Whether a name is a generated one, or one made from it by a suffix (`KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition`).
    pub(crate) fn is_made(&self, name: &str) -> bool {
        let of = |made: &String| name.strip_prefix(made.as_str()).is_some_and(|e| e.is_empty() || e.starts_with('-'));
        self.made.iter().any(of)
    }

    /// The user's name if there is one. A number is used up in any case, as Kafka Streams does: naming one operator must
    /// not shift the names of the others.
    pub(crate) fn choose(&mut self, user: Option<String>, prefix: &str) -> String {
        let generated = self.generate(prefix);
        user.unwrap_or(generated)
    }

    /// The next generated name of a store.
    pub(crate) fn store(&mut self, prefix: &str) -> String {
        self.generate(&format!("{prefix}{}", prefix::STORE))
    }
}

/// True if Kafka Streams generated this name for a stream's store or operator (`KSTREAM.*-[0-9]{10}`).
pub(crate) fn is_generated(name: &str) -> bool {
    let Some((head, digits)) = name.rsplit_once('-') else { return false };
    head.starts_with("KSTREAM") && digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Why a name cannot be a node's, a store's or a topic's, by Kafka's rules for topic names.
pub(crate) fn illegal(name: &str) -> Option<&'static str> {
    const MAX: usize = 249;
    if name.is_empty() {
        Some("it is empty")
    } else if name == "." || name == ".." {
        Some("it cannot be `.` or `..`")
    } else if name.len() > MAX {
        Some("it is longer than 249 characters")
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        Some("only ASCII letters and digits, `.`, `_` and `-` are allowed")
    } else {
        None
    }
}

/// The name of a type without its paths: `Record<String, i64>`.
pub(crate) fn short_type(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut word_start = 0;
    for c in full.chars() {
        if c == ':' {
            // What stood before the colons was a module.
            short.truncate(word_start);
        } else {
            short.push(c);
            if !(c.is_alphanumeric() || c == '_') {
                word_start = short.len();
            }
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_up_by_named_operators_too() {
        let mut names = Names::default();
        assert_eq!(names.generate(prefix::STREAM_SOURCE), "KSTREAM-SOURCE-0000000000");
        assert_eq!(names.choose(Some("mine".into()), prefix::FILTER), "mine");
        assert_eq!(names.store(prefix::AGGREGATE), "KSTREAM-AGGREGATE-STATE-STORE-0000000002");
        assert_eq!(names.choose(None, prefix::FILTER), "KSTREAM-FILTER-0000000003");
    }

    #[test]
    fn names_that_were_made_are_known_and_so_is_what_is_called_after_them() {
        let mut names = Names::default();
        let store = names.store(prefix::AGGREGATE);
        assert!(names.is_made(&store) && names.is_made(&format!("{store}-repartition")));
        assert!(!names.is_made("counts") && !names.is_made(&format!("{store}x")) && !names.is_made(""));
    }

    #[test]
    fn generated_names_are_recognised() {
        assert!(is_generated("KSTREAM-AGGREGATE-STATE-STORE-0000000002"));
        assert!(!is_generated("counts") && !is_generated("KSTREAM-X-12") && !is_generated("KTABLE-X-0000000002"));
    }

    #[test]
    fn kafkas_rules_for_names() {
        for good in ["a", "A.b_c-9", &"x".repeat(249)] {
            assert_eq!(illegal(good), None, "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0", &"x".repeat(250)] {
            assert!(illegal(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn types_lose_their_paths() {
        assert_eq!(short_type("millpond_topology::record::Record<alloc::string::String, i64>"), "Record<String, i64>");
        assert_eq!(short_type("(a::B, [c::d::E; 4], &f::G)"), "(B, [E; 4], &G)");
        assert_eq!(short_type("core::option::Option<dyn a::T + core::marker::Send>"), "Option<dyn T + Send>");
    }
}
