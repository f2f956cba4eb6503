use super::*;
use crate::cli::plan::UnitPlan;
use crate::cli::quantity::{Credits, Size, Span};
use std::time::Duration;

fn mistake(text: &str) -> String {
    match plan("job.toml", text, Path::new("")) {
        Ok(plan) => panic!("{plan:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_whole_description_is_understood() {
    let text = r#"
        program = "tsp.wasm"
        arguments = ["--seed", "{}", "berlin52.tsp"]
        environment = { LANG = "C", any_thing = "goes" }
        stdin = "in.txt"
        files = ["berlin52.tsp", { from = "../shared/table.csv", path = "table.csv" }]
        sweep = { first = 1, count = 500 }
        memory_limit = "512MiB"
        time_limit = "10m"
        output_limit = 1000
        max_retries = 2
        priority = -5
        batch_name = "berlin"
        find = "nearest"
    "#;
    let plan = plan("job.toml", text, Path::new("/jobs/x")).unwrap();
    assert_eq!(plan.name, "berlin");
    assert!(matches!(&plan.program, Content::Path(p) if p == Path::new("/jobs/x/tsp.wasm")));
    assert!(matches!(&plan.stdin, Some(Content::Path(p)) if p == Path::new("/jobs/x/in.txt")));
    assert!(
        matches!(&plan.files["table.csv"], Content::Path(p) if p == Path::new("/jobs/x/../shared/table.csv"))
    );
    assert!(plan.files.contains_key("berlin52.tsp"));
    assert_eq!(plan.environment["any_thing"], "goes");
    assert_eq!((plan.units(), plan.find), (500, Some("nearest")));
    assert_eq!(plan.settings.memory_limit, Some(Size(512 << 20)));
    assert_eq!(plan.settings.time_limit, Some(Span(Duration::from_secs(600))));
    assert_eq!((plan.settings.output_limit, plan.settings.priority), (Some(Size(1000)), Some(-5)));
}

#[test]
fn what_a_job_may_cost_is_given_in_credits() {
    let text = "program = 'a'\nfind = 'cheapest'\nfuel_limit = 1000\nmax_price = 0.25\nmax_price_job = 20";
    let plan = plan("job.toml", text, Path::new("")).unwrap();
    assert_eq!(plan.find, Some("cheapest"));
    assert_eq!(plan.settings.max_price, Some(Credits(250_000)));
    assert_eq!(plan.settings.max_price_job, Some(Credits(20_000_000)));
}

#[test]
fn the_ring_may_own_the_units_of_a_job_that_buys_nothing() {
    let of = |text: &str| plan("job.toml", text, Path::new(""));
    let ring = of("program = 'a'\nowner = 'ring'").unwrap();
    assert_eq!(ring.settings.owner, Some(OwnerWord::Ring));
    assert_eq!(of("program = 'a'").unwrap().settings.owner, None);
    assert!(mistake("program = 'a'\nowner = 'me'").contains("`gateway` or `ring`"));
    assert!(mistake("program = 'a'\nowner = 'ring'\nfind = 'cheapest'").contains("its gateway"));
    let e = mistake("program = 'a'\nmax_price = 1");
    assert!(e.starts_with("job.toml:2:") && e.contains("needs `fuel_limit`"), "{e}");
}

#[test]
fn a_job_says_what_nodes_must_have() {
    let text =
        "program = 'a'\nfind = 'fitting'\n[requires]\nmemory = '1GiB'\nlabels = { any-thing = 'goes' }";
    let plan = plan("job.toml", text, Path::new("")).unwrap();
    assert_eq!(plan.find, Some("fitting"));
    assert_eq!(plan.settings.requires, Some("memory=1GiB,label.any-thing=goes".parse().unwrap()));
    let unknown = mistake("program = 'a'\n[requires]\nmemori = '1GiB'");
    assert_eq!(unknown, "job.toml:3:1: unknown key `memori` in requires: did you mean `memory`?");
    for (keys, words) in [
        ("find = 'nearest'\nrequires = { os = 'linux' }", "`requires` contradicts `find` in line 2"),
        ("requires = { os = 'linux' }\nmax_price = 1", "`max_price` contradicts `requires` in line 2"),
    ] {
        let e = mistake(&format!("program = 'a'\n{keys}"));
        assert!(e.starts_with("job.toml:3:1") && e.contains(words), "{e}");
    }
}

#[test]
fn what_other_nodes_keep_is_named_and_not_looked_for_here() {
    let text = r#"
        program = "swarm:tools/tsp.wasm"
        stdin = "swarm:abc"
        files = ["swarm:berlin52.tsp", { from = "swarm:another one", path = "b.tsp" }]
        inputs = ["swarm:first"]
    "#;
    let plan = plan("job.toml", text, Path::new("/jobs/x")).unwrap();
    assert_eq!(plan.name, "tsp");
    let of = |content: &Content| match content {
        Content::Swarm(which) => which.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&plan.program), "tools/tsp.wasm");
    assert_eq!(plan.stdin.as_ref().map(of).as_deref(), Some("abc"));
    assert_eq!(of(&plan.files["berlin52.tsp"]), "berlin52.tsp");
    assert_eq!(of(&plan.files["b.tsp"]), "another one");
    assert!(plan.check().is_ok(), "nothing of it has to be here");
}

#[test]
fn the_shortest_description_is_one_unit_named_after_its_program() {
    let plan = plan("job.toml", "program = 'a/b.wasm'", Path::new("")).unwrap();
    assert_eq!((plan.name.as_str(), plan.units()), ("b", 1));
}

#[test]
fn mistyped_keys_are_named_with_their_place_and_the_likely_one() {
    assert_eq!(
        mistake("program = 'a.wasm'\nargumets = []"),
        "job.toml:2:1: unknown key `argumets`: did you mean `arguments`?"
    );
    assert_eq!(
        mistake("program = 'a.wasm'\n[sweep]\nfirst = 1\ncuont = 3"),
        "job.toml:4:1: unknown key `cuont` in sweep: did you mean `count`?"
    );
    assert_eq!(
        mistake("program = 'a'\nfiles = [{ form = 'a', path = 'b' }]"),
        "job.toml:2:12: unknown key `form` in files: did you mean `from`?"
    );
}

#[test]
fn the_old_word_for_the_usual_finder_is_understood() {
    let plan = plan("job.toml", "program = 'a.wasm'\nfind = 'connected'", Path::new("/jobs")).unwrap();
    assert_eq!(plan.find, Some("nearest"));
}

#[test]
fn values_of_the_wrong_kind_are_refused_where_they_stand() {
    assert!(mistake("program = 3").starts_with("job.toml:1:11: invalid type: integer"));
    let e = mistake("program = 'a'\nmemory_limit = 'lots'");
    assert!(e.starts_with("job.toml:2:16: \"lots\" is no size"), "{e}");
    let e = mistake("program = 'a'\nfind = 'nearby'");
    assert!(e.contains("2:8") && e.contains("nearest") && e.contains("cheapest"), "{e}");
    let e = mistake("program = 'a'\nmax_price = 0.0000001");
    assert!(e.starts_with("job.toml:2:13: ") && e.contains("is no amount"), "{e}");
    let e = mistake("program = 'a'\nfiles = [7]");
    assert!(e.contains("2:") && e.contains("expected a path"), "{e}");
    assert!(mistake("arguments = []").contains("missing field `program`"));
}

#[test]
fn contradictions_are_refused() {
    let base = "program = 'a'\n";
    let e = mistake(&format!("{base}inputs = ['x']\nsweep = {{ count = 2 }}"));
    assert!(e.starts_with("job.toml:3:1: `sweep` contradicts `inputs` in line 2"), "{e}");
    let e = mistake(&format!("{base}batch_name = 'x'\nname = 'y'"));
    assert!(e.starts_with("job.toml:3:1: `name` contradicts `batch_name`"), "{e}");
    let e = mistake(&format!("{base}inputs = ['x']\ninputs_as = 'stdin'\nstdin = 'x'"));
    assert!(e.starts_with("job.toml:4:1: `stdin` contradicts `inputs_as`"), "{e}");
    assert!(mistake(&format!("{base}inputs_as = 'file'")).contains("needs `inputs`"));
    assert!(mistake(&format!("{base}sweep = {{ count = 0 }}")).contains("0 units"));
    assert!(mistake(&format!("{base}files = ['a', './a']")).contains("two files named a"));
}

#[test]
fn inputs_are_patterns_relative_to_the_description() {
    let dir = tempfile::tempdir().unwrap();
    // Not a pattern, although it looks like one.
    let folder = dir.path().join("[jobs]");
    std::fs::create_dir_all(folder.join("in")).unwrap();
    for name in ["in/b.txt", "in/a.txt", "in/c.csv", "job.toml"] {
        std::fs::write(folder.join(name), "x").unwrap();
    }
    let text = "program = 'p'\narguments = ['-v']\ninputs = ['in/*.csv', 'in/*.txt']";
    let planned = plan("job.toml", text, &folder).unwrap();
    let UnitsPlan::List(units) = planned.units else { panic!("{:?}", planned.units) };
    let arguments: Vec<_> = units.iter().map(|u| u.arguments.clone().unwrap()).collect();
    assert_eq!(arguments, [["-v", "in/c.csv"], ["-v", "in/a.txt"], ["-v", "in/b.txt"]]);
    assert_eq!(units[1].files, [("in/a.txt".into(), folder.join("in/a.txt"))]);

    let text = "program = 'p'\ninputs_as = 'stdin'\ninputs = ['in/a.txt']";
    let planned = plan("job.toml", text, &folder).unwrap();
    let UnitsPlan::List(units) = planned.units else { panic!("{:?}", planned.units) };
    let stdin = Some(folder.join("in/a.txt"));
    assert_eq!(units, [UnitPlan { arguments: Some(vec![]), stdin, files: vec![] }]);

    let e = plan("job.toml", "program = 'p'\ninputs = ['in/*.xml']", &folder).unwrap_err().to_string();
    assert!(e.starts_with("job.toml:2:1: \"in/*.xml\" matches no file"), "{e}");
}

#[test]
fn a_program_in_place_of_a_description_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.wasm");
    std::fs::write(&path, b"\0asm\x01\0\0\0\xff").unwrap();
    let e = read(&path).unwrap_err();
    assert_eq!(e.code, 2);
    assert!(e.message.contains("manyhands run"), "{}", e.message);
    assert!(read(&dir.path().join("gone.toml")).unwrap_err().message.ends_with("gone.toml: no such file"));
}
