//! A command line of the form `name=value`, as the Java programs of `bench peer` take it.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::error::Result;

/// The values by name.
#[derive(Debug, Default)]
pub struct Args(BTreeMap<String, String>);

impl Args {
    /// Words of that form; the last value of a name counts.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self> {
        let pair = |word: &S| match word.as_ref().split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(format!("`{}` is not of the form name=value", word.as_ref())),
        };
        Ok(Self(words.iter().map(pair).collect::<std::result::Result<_, _>>()?))
    }

    /// A value that must be there.
    pub fn get(&self, name: &str) -> Result<&str> {
        Ok(self.find(name).ok_or_else(|| format!("`{name}=` is missing"))?)
    }

    /// A value that may be there.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number, or what it is by default.
    pub fn number<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T> {
        let Some(text) = self.find(name) else { return Ok(otherwise) };
        Ok(text.parse().map_err(|_| format!("`{name}={text}` is not a number that fits"))?)
    }

    /// Those whose name starts with the prefix, without it.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_by_prefix() {
        let args = Args::parse(&["app=a=b", "records=-1", "conf.x.y=1", "conf.z="]).unwrap();
        assert_eq!(args.get("app").unwrap(), "a=b");
        assert_eq!(args.number("records", 0).unwrap(), -1);
        assert_eq!(args.number("commit", 7).unwrap(), 7);
        assert_eq!(args.under("conf.").collect::<Vec<_>>(), [("x.y", "1"), ("z", "")]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let args = Args::parse(&["records=many"]).unwrap();
        assert!(args.get("app").unwrap_err().to_string().contains("`app=`"));
        assert!(args.number("records", 0).unwrap_err().to_string().contains("records=many"));
        assert!(Args::parse(&["records"]).unwrap_err().to_string().contains("`records`"));
        assert!(Args::parse(&["=1"]).is_err());
    }
}
