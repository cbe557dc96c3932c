//! Offsets that stand behind the markers of the input's own transactions.

use std::time::Duration;

use millpond_broker_api::{Admin, At, Broker, Member, Outgoing, Producer, ProducerOptions, Sent};
use millpond_runtime::{Clock, Counter, Guarantee};

use crate::support::World;

const SECOND: Duration = Duration::from_secs(1);

fn write(producer: &mut dyn Producer, world: &World, records: usize) {
    let topic = producer.topic("in");
    for _ in 0..records {
        let (key, value, timestamp) = (Some(&b"p0"[..]), Some(&b"v"[..]), world.clock.wall_ms());
        let record = Outgoing { topic, partition: 0, timestamp, key, value, headers: &[], tag: 0 };
        assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
    }
    assert_eq!(producer.flush(Duration::ZERO).unwrap().outstanding, 0);
}

fn end(admin: &mut dyn Admin) -> i64 {
    admin.offsets(&[("in", 0, At::End)]).unwrap().remove(0).unwrap()
}

/// KAFKA-6607: five records that were committed, three that were aborted, each with its marker.
#[test]
fn b084_committed_offsets_stand_behind_the_markers() {
    for (guarantee, counted) in [(Guarantee::ExactlyOnce, 5), (Guarantee::AtLeastOnce, 8)] {
        let mut world = World::new(guarantee);
        let mut admin = world.broker.admin().unwrap();
        let mut producer = world.broker.producer(&ProducerOptions::transactional("source")).unwrap();
        producer.init(Duration::ZERO).unwrap();
        let nobody = Member { group: "".into(), member_id: "".into(), instance_id: None, generation: -1 };
        write(&mut *producer, &world, 5);
        assert!(matches!(producer.commit(&nobody, &[], Duration::ZERO), millpond_broker_api::CommitOutcome::Committed));
        write(&mut *producer, &world, 3);
        producer.abort(Duration::ZERO).unwrap();
        assert_eq!(end(&mut *admin), 10);

        world.start();
        world.run(2 * SECOND);
        assert_eq!(world.counts(0), (1..=counted).collect::<Vec<_>>(), "{guarantee:?}");
        assert_eq!(world.committed_offset(0), Some(10), "{guarantee:?}: no lag is left");

        // A transaction that leaves nothing but its marker and what is not read moves the offset as well.
        write(&mut *producer, &world, 1);
        producer.abort(Duration::ZERO).unwrap();
        world.run(2 * SECOND);
        assert_eq!(world.committed_offset(0), Some(end(&mut *admin)), "{guarantee:?}: twelve");

        world.stop();
        let before = world.counts(0);
        world.start();
        world.run(2 * SECOND);
        assert!(world.instance().is_running());
        assert_eq!(world.count_of(Counter::ProcessTotal), 0, "{guarantee:?}: nothing is read again");
        assert_eq!((world.counts(0), world.committed_offset(0)), (before, Some(12)), "{guarantee:?}");
    }
}
