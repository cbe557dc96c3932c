//! Paths of state that cannot be used: told at the start, with the path and the reason, or survived without loss.

use std::path::Path;
use std::time::Duration;

use millpond_runtime::{Counter, ErrorKind, Guarantee, Instance};
use millpond_store_api as store;
use millpond_store_mem::{DiskOp, MemEngine};

use crate::support::World;

const SECOND: Duration = Duration::from_secs(1);

/// The error that the application's start gives: it names all of these.
fn refused(world: &World, parts: &[&str]) {
    let error = Instance::new(world.spec()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateDir);
    let text = error.chain();
    parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is missing in: {text}"));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// KAFKA-12928: something that is no directory is in the way.
#[test]
fn b119_a_file_in_the_place_of_the_state_directory_is_named_at_the_start() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let file = world.dir.path().join("taken");
    std::fs::write(&file, "").unwrap();
    world.settings.state_dir = Some(file.clone());
    refused(&world, &[text(&file), "not a state directory", "remedy=`"]);
}

/// Not even root can make a directory there.
#[cfg(target_os = "linux")]
#[test]
fn b119_a_place_that_cannot_be_written_is_named_at_the_start() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let place = Path::new("/sys/millpond");
    world.settings.state_dir = Some(place.to_owned());
    refused(&world, &[text(place), "no permission", "remedy=`let the process own it"]);
}

/// A file in the place of one task's directory ends the application with its path, and nothing is processed.
#[test]
fn b119_a_file_in_the_place_of_a_tasks_directory_stops_the_application() {
    let mut world = World::running();
    world.stop();
    let task = world.app_dir().join("0_1");
    std::fs::remove_dir_all(&task).unwrap();
    std::fs::write(&task, "").unwrap();
    world.start();
    let error = (0..500).find_map(|_| {
        world.clock.advance(Duration::from_millis(10));
        world.try_step().err()
    });
    let error = error.expect("it stops");
    assert_eq!(error.kind(), ErrorKind::StateDir);
    assert!(error.chain().contains(text(&task)), "{}", error.chain());
    assert_eq!(std::fs::read(&task).unwrap(), b"", "what is in the way is left alone");
}

/// KAFKA-10705: what is written there is for the owner only, whatever the umask says, and stores in memory need nothing.
#[test]
fn b119_stores_in_memory_make_no_directories_and_the_rest_is_private() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    world.start();
    world.run(2 * SECOND);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let shard = std::fs::read_dir(world.app_dir().join("0_0")).unwrap().map(|e| e.unwrap().path());
        for path in shard.chain([world.app_dir(), world.app_dir().join("0_0")]) {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} is open to others", path.display());
        }
    }
    world.stop();

    // The same topology with stores in memory: the identity, and no task.
    world.dir = tempfile::tempdir().unwrap();
    world.settings.state_dir = Some(world.dir.path().to_owned());
    let spec =
        || millpond_runtime::InstanceSpec { engines: vec![std::sync::Arc::new(MemEngine::default())], ..world.spec() };
    let mut instance = Instance::new(spec()).unwrap();
    for _ in 0..300 {
        instance.step_member().unwrap();
        instance.step_worker(0).unwrap();
        world.clock.advance(Duration::from_millis(10));
    }
    assert!(instance.is_running() && instance.tasks().len() == 2);
    assert_eq!(names(&world.app_dir()), ["FORMAT", "lock", "process-id", "workers"]);
}

/// KAFKA-12190: the system cleans up while the application runs. The shards that are lost with their directory are restored
/// from the log, which has everything that was committed.
#[test]
fn b119_a_state_directory_that_is_lost_at_run_time_costs_no_record() {
    let mut world = World::running();
    world.send(0, 30);
    world.send(1, 30);
    world.run(SECOND);
    for task in ["0_0", "0_1"] {
        std::fs::remove_dir_all(world.app_dir().join(task)).unwrap();
    }
    world.disk.wipe();
    // What writes to files that are gone hears of it at its next write.
    world.disk.fail_next(DiskOp::Apply, store::ErrorKind::Io);
    world.disk.fail_next(DiskOp::Apply, store::ErrorKind::Io);
    world.send(0, 30);
    world.send(1, 30);
    world.run(5 * SECOND);
    assert_eq!(world.count_of(Counter::ShardReopenedTotal), 2);
    world.assert_exactly_once("after the loss");
    world.send(0, 30);
    world.run(SECOND);
    world.assert_exactly_once("and later");
}
