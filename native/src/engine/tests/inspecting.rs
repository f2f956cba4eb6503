//! Programs that come over the wire are looked into, as at an upload.

use super::support::World;
use node_core::engine::NotRunnable;
use node_core::{EngineReply, EngineRequest};

fn verdict(world: &mut World, program: &[u8], memory_bytes: u64) -> Result<(), NotRunnable> {
    let program = world.program(program).program;
    world.ask(EngineRequest::Inspect { number: 7, program, memory_bytes });
    match world.next() {
        EngineReply::Inspected { number: 7, result } => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_no_node_could_run_is_told_before_anybody_gets_it() {
    let mut world = World::new(0);
    let start = r#"(memory (export "memory") 3) (func (export "_start"))"#;
    let good = wat::parse_str(format!("(module {start})")).unwrap();
    assert_eq!(verdict(&mut world, &good, 1 << 20), Ok(()));
    let mut refused = |program: &[u8], memory_bytes| match verdict(&mut world, program, memory_bytes) {
        Err(NotRunnable::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&good, 65_536);
    assert!(why.contains("memory"), "{why}");
    let why = refused(b"no program", 1 << 20);
    assert!(why.len() > 8, "{why}");
}
