use super::super::fixture::{Gateway, PROGRAM};
use super::*;
use crate::engine::{Engine, EngineOptions};
use node_core::{EngineReply, EngineRequest};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Starts processes of the engine, each of which takes a second before it does anything, and notes in a file
/// if another one has not ended by then.
fn slow_launcher(folder: &Path) -> PathBuf {
    let Launcher { exe, arguments } = crate::engine::tests::launcher();
    let words = arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    let script = folder.join("launcher");
    let text = format!(
        "#!/bin/sh\nmkdir \"$0.busy\" || echo \"$$\" >> \"$0.beside\"\necho \"$$\" >> \"$0.begun\"\nsleep 1\n'{}' {words}\ncode=$?\n\
         rmdir \"$0.busy\"\nexit $code\n",
        exe.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[tokio::test]
async fn a_program_that_came_over_the_wire_is_not_checked_beside_one_that_is_uploaded() {
    let folder = tempfile::tempdir().unwrap();
    let exe = slow_launcher(folder.path());
    let launcher = Launcher { exe: exe.clone(), arguments: Vec::new() };
    let gateway = Gateway::with(|options| options.launcher = launcher).await;
    let blob_dir = folder.path().join("blobs");
    let program = BlobId::of(PROGRAM);
    let name = program.to_string();
    std::fs::create_dir_all(blob_dir.join(&name[..2])).unwrap();
    std::fs::write(blob_dir.join(&name[..2]).join(&name), PROGRAM).unwrap();
    let cache_dir = folder.path().join("cache");
    let options =
        EngineOptions { exe: exe.clone(), blob_dir, cache_dir, slots: 0, cpu_share: 100, background: false };
    let (send, replies) = mpsc::channel();
    let engine = Engine::start(options, move |reply| drop(send.send(reply)));

    engine.request(EngineRequest::Inspect { number: 7, program, memory_bytes: 1 << 20 });
    gateway.submit(json!({})).await;
    let reply = tokio::task::spawn_blocking(move || replies.recv_timeout(Duration::from_secs(60)));
    let reply = reply.await.unwrap().expect("an answer");
    assert!(matches!(reply, EngineReply::Inspected { number: 7, result: Ok(()) }), "{reply:?}");
    let lines = |of: &str| {
        let text = std::fs::read_to_string(exe.with_extension(of)).unwrap_or_default();
        text.lines().count()
    };
    assert_eq!((lines("begun"), lines("beside")), (2, 0), "one check at a time");
}
