//! The cold path, with a small crate in the place of RocksDB's.

use super::*;

const LOCK: &str = "\
version = 4

[[package]]
name = \"librocksdb-sys\"
version = \"0.19.0+11.8.1\"
source = \"registry\"

[[package]]
name = \"millpond-store-rocks\"
version = \"0.1.0\"
dependencies = [
 \"rocksdb\",
]

[[package]]
name = \"rocksdb\"
version = \"0.25.0\"
";

/// A directory of its own for each test, gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        remove_dir(&path).unwrap();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_dir(&self.0).unwrap();
    }
}

/// A crate that builds as the real one does, as far as we look at it, in a second and without a compiler.
fn small_crate(scratch: &Scratch, build_script: &str) -> Recipe {
    let manifest = format!("[package]\nname = \"{SYS}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    scratch.write("sys/Cargo.toml", &manifest);
    scratch.write("sys/src/lib.rs", "");
    scratch.write("sys/build.rs", build_script);
    scratch.write("sys/rocksdb_lib_sources.txt", "db/c.cc\ndb/db.cc\n");
    scratch.write("sys/rocksdb/include/rocksdb/c.h", "int c;\n");
    scratch.write("sys/rocksdb/include/rocksdb/utilities/more.h", "int more;\n");
    Recipe {
        key: "small".to_owned(),
        dependency: format!("{SYS} = {{ path = {:?} }}", scratch.0.join("sys")),
        lock: None,
    }
}

const GOOD_SCRIPT: &str = r#"
fn main() {
    // As in a first build: nothing says where a finished library is.
    assert!(std::env::var_os("ROCKSDB_LIB_DIR").is_none());
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    for name in ["a-c.o", "a-db.o", "librocksdb.a"] {
        std::fs::write(out.join(name), name).unwrap();
    }
}
"#;

#[test]
fn a_build_ends_up_whole_in_its_place_and_leaves_nothing_else() {
    let scratch = Scratch::new("whole");
    let recipe = small_crate(&scratch, GOOD_SCRIPT);
    let home = scratch.0.join("cache/rocksdb/small");
    // What an interrupted build left behind is no obstacle.
    scratch.write("cache/rocksdb/.small.building/target/junk", "");
    scratch.write("cache/rocksdb/small/lib/half", "");
    assert!(!is_complete(&home));

    build(&recipe, &home).unwrap();

    assert!(is_complete(&home));
    assert_eq!(fs::read_to_string(home.join("lib/librocksdb.a")).unwrap(), "librocksdb.a");
    assert_eq!(fs::read_to_string(home.join("include/rocksdb/utilities/more.h")).unwrap(), "int more;\n");
    assert!(!home.join("lib/half").exists());
    let mut left = files(home.parent().unwrap());
    left.sort();
    let names = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["lock", "small", "small.log"]);
}

#[test]
fn a_second_build_of_the_same_finds_the_first() {
    let scratch = Scratch::new("second");
    let recipe = small_crate(&scratch, GOOD_SCRIPT);
    let home = scratch.0.join("cache/rocksdb/small");
    build(&recipe, &home).unwrap();
    scratch.write("sys/build.rs", "fn main() { panic!(\"built twice\") }");
    build(&recipe, &home).unwrap();
}

#[test]
fn a_failed_build_shows_the_end_of_its_log_and_leaves_no_library() {
    let scratch = Scratch::new("failed");
    let recipe = small_crate(&scratch, "fn main() { panic!(\"no such header\") }");
    let home = scratch.0.join("cache/rocksdb/small");
    let error = build(&recipe, &home).unwrap_err();
    let message = error.message().unwrap();
    assert!(message.contains("no such header") && message.contains("small.log"), "{message}");
    assert!(!home.exists());
}

#[test]
fn a_build_without_a_library_is_an_error_and_not_an_empty_cache() {
    let scratch = Scratch::new("empty");
    let recipe = small_crate(&scratch, "fn main() {}");
    let home = scratch.0.join("cache/rocksdb/small");
    assert!(build(&recipe, &home).unwrap_err().message().unwrap().contains("left no librocksdb.a"));
    assert!(!home.exists());
}

#[test]
fn the_key_holds_version_features_profile_and_host() {
    let features = ["bindgen-runtime".to_owned(), "lz4".to_owned()];
    let recipe = Recipe::new(&features, LOCK, "x86_64-unknown-linux-gnu").unwrap();
    assert_eq!(recipe.key, "librocksdb-sys-0.19.0+11.8.1-bindgen-runtime-lz4-release-x86_64-unknown-linux-gnu");
    let line = r#"rocksdb = { version = "=0.25.0", default-features = false, features = ["bindgen-runtime", "lz4"] }"#;
    assert_eq!(recipe.dependency, line);
}

#[test]
fn a_lock_file_without_rocksdb_is_an_error_that_names_it() {
    let error = Recipe::new(&[], "version = 4\n", "host").err().unwrap();
    assert!(error.message().unwrap().contains("names no rocksdb"));
    let error = Recipe::new(&[], &LOCK.repeat(2), "host").err().unwrap();
    assert!(error.message().unwrap().contains("several versions of rocksdb"));
}

#[test]
fn the_settings_are_written_once_and_a_developers_own_are_left_alone() {
    let scratch = Scratch::new("settings");
    let local = scratch.0.join("local.toml");
    assert!(!is_the_developers(&local).unwrap());

    let text = settings(Path::new("/cache/it")).unwrap();
    write_if_changed(&local, &text).unwrap();
    assert!(!is_the_developers(&local).unwrap());
    assert!(text.contains("ROCKSDB_LIB_DIR = { value = '/cache/it/lib', force = true }"), "{text}");

    scratch.write("local.toml", "[env]\nROCKSDB_LIB_DIR = '/usr/lib'\n");
    assert!(is_the_developers(&local).unwrap());
    scratch.write("local.toml", "[build]\njobs = 1\n");
    assert!(is_the_developers(&local).unwrap_err().message().unwrap().contains("ROCKSDB_LIB_DIR"));
    assert!(settings(Path::new("/it's")).is_err());
}
