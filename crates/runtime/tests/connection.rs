//! A cluster that does not answer: the application says so, and goes on by itself when it is back.

use std::time::{Duration, Instant};

use millpond_broker_api::{Broker, NewTopic};
use millpond_broker_mem::{EmbeddedBroker, Op, Verdict};
use millpond_runtime::{App, AppState};
use millpond_store_mem::MemEngine;
use millpond_topology::{Consumed, Topology, Utf8};

/// Waits for what is bound to come; a state that does not come is named after a while.
#[expect(clippy::disallowed_methods, reason = "it waits for threads of the library, on the system's clock")]
fn await_state(app: &App, wanted: AppState) {
    let start = Instant::now();
    while app.state() != wanted {
        assert!(start.elapsed() < Duration::from_secs(60), "still {:?}, not {wanted:?}", app.state());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_lost_cluster_is_a_state_that_passes() {
    let broker = EmbeddedBroker::new();
    let topic = NewTopic { name: "in", partitions: 1, replication: None, configs: &[] };
    broker.admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap();
    let mut topology = Topology::builder();
    topology.stream("in", Consumed::with(Utf8, Utf8)).foreach(|_, _| {});
    let builder = App::builder("app").broker(broker.clone()).engine(MemEngine::default());
    let app = builder.set("heartbeat.interval.ms", "20").unwrap().start(topology.build().unwrap()).unwrap();
    await_state(&app, AppState::Running);

    broker.set_faults(|op: Op<'_>| if matches!(op, Op::Group { .. }) { Verdict::Disconnect } else { Verdict::Pass });
    await_state(&app, AppState::Disconnected);
    broker.clear_faults();
    await_state(&app, AppState::Running);
    app.shutdown().unwrap();
}
