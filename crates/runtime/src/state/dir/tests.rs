//! Tests of the state directory on real files.

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;

const APP: &str = "app";
const TASK: TaskId = TaskId { sub_topology: 0, partition: 3 };

fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(root: &Path) -> Result<StateDir> {
    StateDir::open(root, APP, &mut || 0xABC)
}

/// The error that opening gives, which must name the path and a remedy.
fn refused(root: &Path) -> StateError {
    let error = open(root).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(root.to_str().unwrap()) && text.contains("remedy=`"), "{text}");
    error
}

fn names(dir: &Path) -> Vec<String> {
    list("list", dir).unwrap().into_iter().map(|(name, _)| name).collect()
}

fn relative(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_new_directory_is_private_and_keeps_its_identity() {
    let root = root();
    let nested = root.path().join("not/there/yet");
    let dir = open(&nested).unwrap();
    assert_eq!(dir.path(), nested.join(APP));
    assert_eq!(dir.process_id(), 0xABC);
    assert_eq!(names(dir.path()), ["FORMAT", "lock", "process-id"]);
    assert_eq!(fs::read_to_string(dir.path().join(PROCESS_ID)).unwrap(), "00000000000000000000000000000abc\n");
    let shard = dir.lock(TASK).unwrap().shard_dir("rocks").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [&nested, dir.path(), &shard, shard.parent().unwrap()] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        for name in [FORMAT, LOCK, PROCESS_ID, "0_3/CURRENT"] {
            assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
        }
    }
    drop(dir);
    let again = StateDir::open(&nested, APP, &mut || unreachable!("the identity is there")).unwrap();
    assert_eq!(again.process_id(), 0xABC);
}

#[test]
fn a_second_instance_is_refused_by_name_until_the_first_is_gone() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let error = refused(root.path());
    assert_eq!(error.kind(), StateErrorKind::Locked);
    assert!(error.to_string().contains("holder=`another instance in this process`"), "{error}");
    let other = StateDir::open(root.path(), "other", &mut || 1).unwrap();
    assert_eq!(other.process_id(), 1);
    let task = dir.lock(TASK).unwrap();
    drop(dir);
    assert_eq!(refused(root.path()).kind(), StateErrorKind::Locked, "a task is open still");
    drop(task);
    open(root.path()).unwrap();
}

#[test]
fn a_killed_process_leaves_no_lock() {
    const HOLD: &str = "MILLPOND_TEST_HOLD_STATE_DIR";
    if let Some(root) = std::env::var_os(HOLD) {
        // The child: takes the directory, says so, and waits for its end.
        let _dir = open(Path::new(&root)).unwrap();
        println!("\nheld");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let root = root();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            concat!(module_path!(), "::a_killed_process_leaves_no_lock").split_once("::").unwrap().1,
            "--exact",
            "--nocapture",
        ])
        .env(HOLD, root.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(std::io::BufRead::lines(said).any(|line| line.unwrap() == "held"));
    let error = refused(root.path());
    assert_eq!(error.kind(), StateErrorKind::Locked);
    assert!(error.to_string().contains(&format!("holder=`process {}`", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open(root.path()).unwrap().process_id(), 0xABC);
}

#[test]
fn what_is_not_ours_is_named_and_left_alone() {
    let root = root();
    fs::write(root.path().join(APP), "a file").unwrap();
    assert_eq!(refused(root.path()).kind(), StateErrorKind::Foreign);
    let below_file = root.path().join(APP).join("below");
    assert_eq!(refused(&below_file).kind(), StateErrorKind::Foreign);
    fs::remove_file(root.path().join(APP)).unwrap();

    fs::create_dir(root.path().join(APP)).unwrap();
    fs::write(root.path().join(APP).join("thesis.tex"), "").unwrap();
    let error = refused(root.path());
    assert_eq!(error.kind(), StateErrorKind::Foreign);
    assert!(error.to_string().contains("entry=`thesis.tex`"), "{error}");
    assert_eq!(names(&root.path().join(APP)), ["thesis.tex"]);

    for (format, kind) in [
        ("", StateErrorKind::Foreign),
        ("rocksdb 1\n", StateErrorKind::Foreign),
        ("millpond-state x\n", StateErrorKind::Foreign),
        ("millpond-state 2\n", StateErrorKind::Future),
    ] {
        fs::write(root.path().join(APP).join(FORMAT), format).unwrap();
        assert_eq!(refused(root.path()).kind(), kind, "{format:?}");
        assert_eq!(names(&root.path().join(APP)), ["FORMAT", "thesis.tex"]);
    }
    fs::write(root.path().join(APP).join(FORMAT), [0xFF, 0xFE]).unwrap();
    assert_eq!(refused(root.path()).kind(), StateErrorKind::Foreign);
}

#[test]
fn other_files_beside_ours_are_left_alone() {
    let root = root();
    let dir = open(root.path()).unwrap();
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    fs::write(dir.path().join("1_1"), "a file that is no task").unwrap();
    fs::create_dir(dir.path().join("01_1")).unwrap();
    drop(dir);
    let dir = open(root.path()).unwrap();
    assert_eq!(names(dir.path()), ["01_1", "1_1", "FORMAT", "lock", "notes.txt", "process-id"]);
    let error = dir.lock(TaskId { sub_topology: 1, partition: 1 }).unwrap().shard_dir("rocks").unwrap_err();
    assert_eq!(error.kind(), StateErrorKind::Foreign);
    assert!(error.to_string().contains("1_1"), "{error}");
}

#[test]
fn a_crash_between_lock_and_format_is_no_foreign_directory() {
    let root = root();
    fs::create_dir(root.path().join(APP)).unwrap();
    fs::write(root.path().join(APP).join(LOCK), "17\n").unwrap();
    fs::write(root.path().join(APP).join("FORMAT.tmp"), "millp").unwrap();
    let dir = open(root.path()).unwrap();
    assert_eq!(names(dir.path()), ["FORMAT", "lock", "process-id"]);
}

#[test]
fn application_ids_that_are_no_names_are_refused() {
    let root = root();
    for id in ["", ".", "..", "a/b", "a b", "ä", "a\0b"] {
        let error = StateDir::open(root.path(), id, &mut || 0).unwrap_err();
        assert_eq!(error.kind(), StateErrorKind::Invalid, "{id:?}");
    }
    assert!(names(root.path()).is_empty());
}

#[test]
fn an_identity_that_cannot_be_read_is_named() {
    for text in ["", "abc\n", "00000000000000000000000000000abc", "+0000000000000000000000000000abc\n", "\u{7f}"] {
        let root = root();
        let path = open(root.path()).unwrap().path().join(PROCESS_ID);
        fs::write(&path, text).unwrap();
        let error = refused(root.path());
        assert_eq!(error.kind(), StateErrorKind::Damaged, "{text:?}");
        assert!(error.to_string().contains("process-id"), "{error}");
        fs::remove_file(&path).unwrap();
        assert_eq!(StateDir::open(root.path(), APP, &mut || 7).unwrap().process_id(), 7);
    }
}

#[test]
fn the_largest_number_of_workers_is_remembered() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let noted: Vec<u32> = [4, 2, 8, 8].into_iter().map(|workers| dir.note_workers(workers).unwrap()).collect();
    assert_eq!(noted, [0, 4, 4, 8]);
    drop(dir);
    let dir = open(root.path()).unwrap();
    assert_eq!(dir.note_workers(1).unwrap(), 8);
    fs::write(dir.path().join(WORKERS), "many\n").unwrap();
    assert_eq!(dir.note_workers(1).unwrap_err().kind(), StateErrorKind::Damaged);
}

#[test]
fn a_task_is_held_once() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    let error = dir.lock(TASK).unwrap_err();
    assert_eq!(error.kind(), StateErrorKind::Locked);
    assert!(error.to_string().contains("0_3"), "{error}");
    assert!(dir.lock(TaskId { sub_topology: 0, partition: 2 }).is_ok());
    assert_eq!(lock.task(), TASK);
    drop(lock);
    assert!(dir.lock(TASK).is_ok());
}

#[test]
fn shards_keep_their_directory_and_engines_have_their_own() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    let rocks = lock.shard_dir("rocks").unwrap();
    assert_eq!(relative(&rocks), "rocks-1");
    assert_eq!(relative(&lock.shard_dir("other").unwrap()), "other-1");
    fs::write(rocks.join("data"), "x").unwrap();
    drop((lock, dir));
    let dir = open(root.path()).unwrap();
    let found = |locked| vec![TaskOnDisk { task: TASK, engines: vec!["other".into(), "rocks".into()], locked }];
    assert_eq!(dir.tasks().unwrap(), found(false));
    let lock = dir.lock(TASK).unwrap();
    assert_eq!(dir.tasks().unwrap(), found(true));
    assert_eq!(lock.shard_dir("rocks").unwrap(), rocks);
    assert!(rocks.join("data").exists());
    assert_eq!(lock.shard_dir("Rocks/").unwrap_err().kind(), StateErrorKind::Invalid);
}

#[test]
fn a_replaced_shard_is_set_aside_and_swept() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    fs::write(lock.shard_dir("rocks").unwrap().join("data"), "x").unwrap();
    lock.shard_dir("other").unwrap();
    let new = lock.replace("rocks").unwrap();
    assert_eq!(relative(&new), "rocks-2");
    assert_eq!((lock.shard_dir("rocks").unwrap(), names(&new).len()), (new, 0));
    assert_eq!(names(&lock.dir()), ["CURRENT", "other-1", "quarantine-rocks-1", "rocks-2"]);
    assert_eq!(relative(&lock.replace("rocks").unwrap()), "rocks-3");
    dir.sweep().unwrap();
    assert_eq!(names(&lock.dir()), ["CURRENT", "other-1", "rocks-3"]);
    assert_eq!(relative(&lock.replace("new").unwrap()), "new-1");
}

#[test]
fn a_crash_while_replacing_leaves_the_former_shard_or_the_new_one() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    let (former, task) = (lock.shard_dir("rocks").unwrap(), lock.dir());
    fs::write(former.join("data"), "x").unwrap();
    drop((lock, dir));
    // Before the switch: the new directory is there, and an unfinished `CURRENT`.
    fs::create_dir(task.join("rocks-2")).unwrap();
    fs::write(task.join("CURRENT.tmp"), "millpond-current 1\nrocks ro").unwrap();
    let dir = open(root.path()).unwrap();
    assert_eq!(dir.lock(TASK).unwrap().shard_dir("rocks").unwrap(), former);
    assert!(former.join("data").exists());
    assert_eq!(names(&task), ["CURRENT", "quarantine-rocks-2", "rocks-1"]);
    drop(dir);
    // After the switch: the former one is not set aside yet.
    fs::create_dir(task.join("rocks-3")).unwrap();
    fs::write(task.join("CURRENT"), "millpond-current 1\nrocks rocks-3\n").unwrap();
    let dir = open(root.path()).unwrap();
    assert_eq!(relative(&dir.lock(TASK).unwrap().shard_dir("rocks").unwrap()), "rocks-3");
    assert_eq!(names(&task), ["CURRENT", "quarantine-rocks-1", "rocks-3"]);
    drop(dir);
    let dir = open(root.path()).unwrap();
    assert_eq!(names(&task), ["CURRENT", "rocks-3"]);
    drop(dir);
    // While removing: what is left does not look like a task.
    fs::rename(&task, root.path().join(APP).join("quarantine-0_3-1")).unwrap();
    let dir = open(root.path()).unwrap();
    assert_eq!((dir.tasks().unwrap(), names(dir.path()).len()), (vec![], 3));
}

#[test]
fn a_damaged_current_or_a_lost_shard_asks_for_a_replacement() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    let shard = lock.shard_dir("rocks").unwrap();
    lock.shard_dir("other").unwrap();
    fs::remove_dir(&shard).unwrap();
    assert_eq!(lock.shard_dir("rocks").unwrap_err().kind(), StateErrorKind::Damaged);
    assert_eq!(relative(&lock.replace("rocks").unwrap()), "rocks-2");
    fs::write(lock.dir().join("CURRENT"), "millpond-current 1\nrocks rocks-").unwrap();
    drop((lock, dir));
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    assert_eq!(names(&lock.dir()), ["CURRENT", "other-1", "rocks-2"], "nothing goes because a file is damaged");
    assert_eq!(lock.shard_dir("rocks").unwrap_err().kind(), StateErrorKind::Damaged);
    assert_eq!(dir.tasks().unwrap(), [TaskOnDisk { task: TASK, engines: vec![], locked: true }]);
    assert_eq!(relative(&lock.replace("rocks").unwrap()), "rocks-3");
    assert_eq!(names(&lock.dir()), ["CURRENT", "quarantine-other-1", "quarantine-rocks-2", "rocks-3"]);
    assert_eq!(relative(&lock.shard_dir("other").unwrap()), "other-2");
}

#[test]
fn a_removed_task_is_gone_and_can_come_back() {
    let root = root();
    let dir = open(root.path()).unwrap();
    let lock = dir.lock(TASK).unwrap();
    fs::write(lock.shard_dir("rocks").unwrap().join("data"), "x").unwrap();
    lock.remove().unwrap();
    assert_eq!(
        (dir.tasks().unwrap(), names(dir.path())),
        (vec![], vec!["FORMAT".into(), "lock".into(), "process-id".into()])
    );
    let lock = dir.lock(TASK).unwrap();
    assert!(names(&lock.shard_dir("rocks").unwrap()).is_empty());
    drop(lock);
    dir.lock(TaskId { sub_topology: 9, partition: 9 }).unwrap().remove().unwrap();
}

#[test]
fn a_directory_that_is_lost_while_running_is_an_error_that_names_it() {
    let root = root();
    let dir = open(root.path()).unwrap();
    fs::remove_dir_all(dir.path()).unwrap();
    let error = dir.note_workers(3).unwrap_err();
    assert_eq!(error.kind(), StateErrorKind::Io);
    assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_named() {
    let root = root();
    let dir = open(root.path()).unwrap();
    // Writing to this device always answers that it is full.
    std::os::unix::fs::symlink("/dev/full", dir.path().join("workers.tmp")).unwrap();
    let error = dir.note_workers(3).unwrap_err();
    assert_eq!(error.kind(), StateErrorKind::Full);
    assert!(error.to_string().contains("workers.tmp") && error.to_string().contains("remedy=`make room"), "{error}");
    drop(dir);
    let dir = open(root.path()).unwrap();
    assert_eq!((dir.note_workers(3).unwrap(), dir.note_workers(3).unwrap()), (0, 3));
}

/// KAFKA-4724, KAFKA-6647, KAFKA-10262: who cleans never removes what someone opens.
#[test]
fn sweeping_and_opening_do_not_meet() {
    let root = root();
    let dir = open(root.path()).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let dir = &dir;
            scope.spawn(move || {
                for i in 0..40 {
                    let task = TaskId { sub_topology: 0, partition: (worker + i) % 4 };
                    let lock = match dir.lock(task) {
                        Ok(lock) => lock,
                        Err(error) => {
                            assert_eq!(error.kind(), StateErrorKind::Locked);
                            continue;
                        }
                    };
                    let shard = if i % 3 == 0 { lock.replace("rocks") } else { lock.shard_dir("rocks") }.unwrap();
                    fs::write(shard.join("data"), "x").unwrap();
                    assert!(shard.join("data").exists());
                    if i % 7 == 0 {
                        lock.remove().unwrap();
                    }
                }
            });
        }
        for _ in 0..100 {
            dir.sweep().unwrap();
            dir.tasks().unwrap();
        }
    });
    assert!(dir.tasks().unwrap().iter().all(|task| !task.locked));
}
