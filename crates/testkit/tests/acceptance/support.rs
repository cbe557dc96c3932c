//! What the tests have in common.

use millpond_runtime::{Error, Guarantee};
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{Builder, Context, I64, Init, Processor, Record, Result, Topology, Utf8};

pub(crate) const BOTH: [Guarantee; 2] = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];

pub(crate) fn topology(define: impl FnOnce(&mut Builder)) -> Topology {
    let mut builder = Topology::builder();
    define(&mut builder);
    builder.build().unwrap()
}

pub(crate) fn builder(define: impl FnOnce(&mut Builder)) -> DriverBuilder {
    Driver::builder(topology(define))
}

pub(crate) fn driver(define: impl FnOnce(&mut Builder)) -> Driver {
    builder(define).build().unwrap()
}

/// Keys and values, as outputs and stores give them.
pub(crate) fn kvs<V: Clone>(pairs: &[(&str, V)]) -> Vec<(String, V)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
}

/// Pipes numbers into `in`.
pub(crate) fn pipe(driver: &Driver, records: &[(&str, i64, i64)]) {
    let input = driver.input("in", Utf8, I64);
    for (key, value, timestamp) in records {
        input.pipe(*key, *value, *timestamp).unwrap();
    }
}

/// Writes numbers to `in` and processes nothing.
pub(crate) fn send(driver: &Driver, records: &[(&str, i64, i64)]) {
    let input = driver.input("in", Utf8, I64);
    for (key, value, timestamp) in records {
        input.send(*key, *value, *timestamp).unwrap();
    }
}

/// What has come out at `out` and was not asked for before is read from the start.
pub(crate) fn out(driver: &Driver) -> Vec<(String, i64)> {
    driver.output("out", Utf8, I64).read_key_values()
}

/// An error's chain holds all of these.
#[track_caller]
pub(crate) fn assert_names(error: &Error, parts: &[&str]) {
    let text = error.chain();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The body of a [`Closure`].
type Body<R> = Box<dyn FnMut(&R, &mut Context<'_, Closure<R>>, Record<String, i64>) -> Result + Send>;

/// A processor of text and numbers whose body is a closure over its stores.
pub(crate) struct Closure<R: Send + 'static> {
    pub(crate) stores: R,
    body: Option<Body<R>>,
}

impl<R: Send + 'static> Processor for Closure<R> {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let mut body = self.body.take().expect("it is put back");
        let done = body(&self.stores, cx, record);
        self.body = Some(body);
        done
    }
}

/// A supplier of closures; `body` is cloned for every task.
pub(crate) fn closure<R: Send + 'static>(
    body: impl FnMut(&R, &mut Context<'_, Closure<R>>, Record<String, i64>) -> Result + Clone + Send + Sync + 'static,
) -> impl Fn(&mut Init<'_, Closure<R>>, R) -> Result<Closure<R>> + Send + Sync + 'static {
    move |_, stores| Ok(Closure { stores, body: Some(Box::new(body.clone())) })
}
