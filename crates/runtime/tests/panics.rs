//! A thread of the library that panics ends the application with an error: nobody waits for it for ever.

use std::sync::Arc;

use millpond_broker_api::{Broker, NewTopic};
use millpond_broker_mem::EmbeddedBroker;
use millpond_runtime::{App, AppState, Counter, Gauge, Metrics, Ports, Scope};
use millpond_store_mem::MemEngine;
use millpond_topology::{Consumed, Topology, Utf8};

/// What a user's port may do on a worker's thread, outside of every record.
struct Panics;

impl Metrics for Panics {
    fn add(&self, counter: Counter, _: Scope, _: u64) {
        assert!(counter != Counter::TaskCreatedTotal, "a task is counted");
    }

    fn set(&self, _: Gauge, _: Scope, _: u64) {}
}

#[test]
fn a_worker_that_panics_ends_the_application_and_its_membership() {
    let broker = EmbeddedBroker::new();
    let topic = NewTopic { name: "in", partitions: 2, replication: None, configs: &[] };
    broker.admin().unwrap().create_topics(&[topic]).unwrap().into_iter().for_each(|made| made.unwrap());
    let mut topology = Topology::builder();
    topology.stream("in", Consumed::with(Utf8, Utf8)).foreach(|_, _| {});
    let app = App::builder("app")
        .broker(broker.clone())
        .engine(MemEngine::default())
        .threads(2)
        .ports(Ports { metrics: Arc::new(Panics), ..Ports::default() })
        .start(topology.build().unwrap())
        .unwrap();
    let error = app.wait().unwrap_err();
    assert!(error.chain().contains("it panicked"), "{}", error.chain());
    assert_eq!(app.state(), AppState::Failed);
    assert!(broker.group("app").unwrap().members.is_empty(), "it has left");
    app.shutdown().unwrap_err();
}
