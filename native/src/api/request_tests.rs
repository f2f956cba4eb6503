use super::*;
use crate::api::extract::parse;
use node_core::work::spec::{Find, OwnedBy};
use serde_json::{Value, json};

/// A gateway that has one program and one input.
fn check(body: Value) -> Result<JobSpec, Problem> {
    let request: JobRequest = parse(body.to_string().as_bytes())?;
    request.check(&mut |id| match id {
        _ if id == program() => Some(1000),
        _ if id == input() => Some(7),
        _ => None,
    })
}

fn program() -> BlobId {
    BlobId::of(b"a program")
}

fn input() -> BlobId {
    BlobId::of(b"an input")
}

/// The smallest job, with these fields beside or in place of its own.
fn job(more: Value) -> Value {
    let mut job = json!({ "program": program().to_string() });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

/// Which field is refused, and in which words.
fn refused(more: Value) -> (String, String) {
    match check(job(more.clone())) {
        Ok(_) => panic!("accepted: {more}"),
        Err(problem) => {
            let (status, detail, field) = problem.parts();
            assert_eq!(status, 422, "{detail}");
            (field.unwrap_or("").to_owned(), detail.to_owned())
        }
    }
}

#[test]
fn the_smallest_job_is_one_unit_with_the_usual_limits() {
    let spec = check(job(json!({}))).unwrap();
    assert_eq!(spec.name, program().short());
    assert_eq!(spec.units, Units::List(vec![UnitSpec::default()]));
    assert_eq!(spec.template.program, BlobRef { id: program(), len: 1000 });
    assert_eq!(spec.template.limits, Limits::default());
    assert_eq!((spec.priority, spec.max_retries, spec.find), (0, 0, Find::Nearest));
}

#[test]
fn checkpoints_can_be_left_out_and_nonsense_about_them_is_refused() {
    let spec = check(job(json!({"checkpoint": 0, "on_loss": "recover"}))).unwrap();
    assert_eq!(spec.template.checkpoint, CheckpointEvery::NEVER);
    assert_eq!(spec.template.on_loss, OnLoss::Recover);
    for (field, value) in [
        ("checkpoint", json!(0.01)),
        ("checkpoint", json!(-1)),
        ("on_loss", json!({"wait": 0})),
        ("fuel_limit", json!(0)),
    ] {
        assert_eq!(refused(json!({field: value})).0, field);
    }
}

#[test]
fn the_old_word_for_the_usual_finder_is_understood() {
    assert_eq!(check(job(json!({"find": "connected"}))).unwrap().find, Find::Nearest);
}

#[test]
fn a_job_with_requirements_is_fitted_unless_it_says_otherwise() {
    let fitted = check(job(json!({"requires": {"os": "linux"}}))).unwrap();
    assert_eq!((fitted.find, fitted.requires.os.as_deref()), (Find::Fitting, Some("linux")));
    assert_eq!(check(job(json!({"find": "fitting"}))).unwrap().find, Find::Fitting);
    for (more, field, words) in [
        (json!({"requires": {}, "find": "nearest"}), "requires", "leave out `find`"),
        (json!({"requires": {"memory": 1}}), "requires.memory", "65536"),
        (json!({"find": "fitting", "max_price": 5}), "max_price", "find: cheapest"),
        (json!({"find": "fitting", "min_speed": 5}), "min_speed", "`requires`"),
    ] {
        let (at, detail) = refused(more.clone());
        assert!(at == field && detail.contains(words), "{more}: {detail}");
    }
}

#[test]
fn everything_that_can_be_said_arrives() {
    let spec = check(job(json!({
        "name": "  seeds  ", "arguments": ["--seed", "{}"], "environment": {"B": "2", "A": "1"},
        "stdin": input().to_string(), "files": [{"path": "data/in.txt", "blob": input().to_string()}],
        "sweep": {"first": 5, "count": 3}, "memory_limit": 1048576, "output_limit": 0, "time_limit": 0.25,
        "max_retries": 2, "priority": -3, "find": "nearest",
        "fuel_limit": 5, "checkpoint": 2.5, "on_loss": {"wait": 600}, "bit_exact": true,
        "owner": "ring",
    })))
    .unwrap();
    let blob = Data::Blob(BlobRef { id: input(), len: 7 });
    assert_eq!(spec.name, "seeds");
    assert_eq!(spec.units, Units::Sweep { first: 5, count: 3 });
    assert_eq!(spec.template.environment, [("A".into(), "1".into()), ("B".into(), "2".into())]);
    assert_eq!(spec.template.stdin, blob);
    assert_eq!(spec.template.files, [NamedData { path: "data/in.txt".into(), data: blob }]);
    let limits = Limits { memory_bytes: 1 << 20, output_bytes: 0, time_us: 250_000, fuel: 5 };
    let template = &spec.template;
    assert_eq!(template.checkpoint, CheckpointEvery(2_500_000));
    assert_eq!((template.on_loss, template.bit_exact), (OnLoss::Wait(600_000_000), true));
    assert_eq!(spec.template.limits, limits);
    assert_eq!((spec.priority, spec.max_retries, spec.owner), (-3, 2, OwnedBy::Ring));
}

#[test]
fn listed_units_keep_what_is_their_own() {
    let spec = check(job(json!({
        "files": [{"path": "shared", "blob": input().to_string()}],
        "units": [{}, {"arguments": []}, {"stdin": input().to_string(), "files": [{"path": "own", "blob": input().to_string()}]}],
    })))
    .unwrap();
    let Units::List(units) = spec.units else { panic!("not a list") };
    assert_eq!(units[0], UnitSpec::default());
    assert_eq!(units[1].arguments, Some(Vec::new()));
    assert_eq!(units[2].stdin.as_ref().map(Data::len), Some(7));
    assert_eq!(units[2].files[0].path, "own");
}

#[test]
fn a_key_that_nobody_knows_is_refused_by_name() {
    for (more, key) in [
        (json!({"memory": 5}), "memory"),
        (json!({"sweep": {"count": 2, "step": 3}}), "step"),
        (json!({"units": [{}, {"argument": []}]}), "argument"),
        (json!({"files": [{"path": "x", "blob": input().to_string(), "mode": 7}]}), "mode"),
    ] {
        let (_, detail) = refused(more);
        assert!(detail.contains(&format!("unknown field `{key}`")), "{detail}");
    }
    // The answer says where the key is, and which key there is instead.
    let (field, detail) = refused(json!({"units": [{}, {"argument": []}]}));
    assert_eq!(field, "units[1].argument");
    assert!(detail.contains("`arguments`"), "{detail}");
}

#[test]
fn the_field_at_fault_is_named() {
    let id = input().to_string();
    let missing = BlobId::of(b"never uploaded").to_string();
    let long = "x".repeat(STRINGS_MAX);
    for (more, field, words) in [
        (json!({"program": "zz"}), "program", "64 hexadecimal digits"),
        (json!({"program": 3}), "program", "a blob's id"),
        (json!({"program": missing}), "program", "upload it first"),
        (json!({"name": ""}), "name", "one line"),
        (json!({"name": "two\nlines"}), "name", "one line"),
        (json!({"name": "x".repeat(201)}), "name", "200"),
        (json!({"arguments": "x"}), "arguments", "expected a sequence"),
        (json!({"arguments": ["a", "b\0"]}), "arguments[1]", "NUL"),
        (json!({"arguments": [long]}), "arguments", "stdin or a file"),
        (json!({"environment": {"A=B": "x"}}), "environment.A=B", "environment variable"),
        (json!({"environment": {"A": "x\0"}}), "environment.A", "NUL"),
        (json!({"stdin": missing}), "stdin", "upload it first"),
        (json!({"files": [{"path": "x", "blob": missing}]}), "files[0].blob", "upload it first"),
        (json!({"files": [{"path": "/x", "blob": id}]}), "files[0].path", "relative"),
        (json!({"files": [{"path": "a/../x", "blob": id}]}), "files[0].path", "relative"),
        (json!({"files": [{"path": "a//x", "blob": id}]}), "files[0].path", "relative"),
        (json!({"files": [{"path": "", "blob": id}]}), "files[0].path", "no path"),
        (json!({"files": [{"path": "x".repeat(256), "blob": id}]}), "files[0].path", "255"),
        (json!({"sweep": {"count": 0}}), "sweep.count", "1 to"),
        (json!({"sweep": {"count": 1_000_001}}), "sweep.count", "1 to 1000000"),
        (json!({"sweep": {"first": u64::MAX, "count": 1}}), "sweep.first", "64 bits"),
        (json!({"sweep": {"first": -1, "count": 1}}), "sweep.first", "u64"),
        (json!({"sweep": {"first": 1}}), "sweep", "missing field `count`"),
        (json!({"units": []}), "units", "0 units"),
        (json!({"units": [{"arguments": ["\0"]}]}), "units[0].arguments[0]", "NUL"),
        (json!({"units": [{}, {"stdin": missing}]}), "units[1].stdin", "upload it first"),
        (json!({"units": [{}], "sweep": {"count": 2}}), "units", "not both"),
        (json!({"memory_limit": 1}), "memory_limit", "65536"),
        (json!({"memory_limit": 5_000_000_000_u64}), "memory_limit", "4294967296"),
        (json!({"output_limit": u64::MAX}), "output_limit", "at most"),
        (json!({"time_limit": 0}), "time_limit", "more than 0"),
        (json!({"time_limit": -1}), "time_limit", "more than 0"),
        (json!({"time_limit": 1e300}), "time_limit", "at most"),
        (json!({"time_limit": "1h"}), "time_limit", "expected f64"),
        (json!({"max_retries": 101}), "max_retries", "100"),
        (json!({"priority": 1001}), "priority", "1000"),
        (json!({"find": "nearby"}), "find", "`connected`"),
        (json!({"find": "cheapest"}), "max_price", "what a unit may cost"),
        (json!({"find": "cheapest", "max_price": 5}), "fuel_limit", "needs one"),
        (json!({"find": "cheapest", "max_price": 0, "fuel_limit": 5}), "max_price", "an amount is 1 to"),
        (json!({"max_price": 5}), "max_price", "say `find: cheapest`"),
        (json!({"owner": "me"}), "owner", "`ring`"),
        (
            json!({"owner": "ring", "find": "cheapest", "max_price": 5, "fuel_limit": 5}),
            "owner",
            "its gateway",
        ),
    ] {
        let (at, detail) = refused(more.clone());
        assert_eq!(at, field, "{more}: {detail}");
        assert!(detail.contains(words), "{more}: {detail}");
        assert!(detail.contains(&format!("`{field}`")), "{more}: {detail}");
    }
}

#[test]
fn files_do_not_lie_on_top_of_each_other() {
    let files = |paths: &[&str]| -> Value {
        paths.iter().map(|path| json!({"path": path, "blob": input().to_string()})).collect()
    };
    for paths in [["a", "a"], ["a", "a/b"], ["a/b", "a"], ["a/b/c", "a/b"]] {
        let (field, _) = refused(json!({"files": files(&paths)}));
        assert_eq!(field, "files[1].path");
        // Nor a unit's own on the job's.
        let (field, _) =
            refused(json!({"files": files(&paths[..1]), "units": [{"files": files(&paths[1..])}]}));
        assert_eq!(field, "units[0].files[0].path");
    }
    // Two units are two worlds.
    check(job(
        json!({"files": files(&["a/b"]), "units": [{"files": files(&["a/c"])}, {"files": files(&["a/c"])}]}),
    ))
    .unwrap();
    let many: Vec<String> = (0..=FILES_MAX).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refused(json!({"files": files(&many)})).1.contains("archive"));
}

#[test]
fn what_is_no_job_at_all_says_so() {
    for (body, status, words) in [
        ("", 400, "not JSON"),
        ("{", 400, "not JSON"),
        ("{} {}", 422, "missing field `program`"),
        ("[]", 400, "object"),
        ("{\"program\": \"a\", \"program\": \"b\"}", 422, "program"),
        ("null", 422, "null"),
    ] {
        let problem = parse::<JobRequest>(body.as_bytes()).unwrap_err();
        let (got, detail, _) = problem.parts();
        assert_eq!(got, status, "{body}: {detail}");
        assert!(detail.contains(words), "{body}: {detail}");
    }
    let two = format!("{} 7", job(json!({})));
    assert!(parse::<JobRequest>(two.as_bytes()).unwrap_err().parts().1.contains("trailing"));
}

#[test]
fn small_inputs_may_be_part_of_the_request() {
    let files = json!([{ "path": "a", "base64": "aGkK" }, { "path": "b", "blob": input().to_string() }]);
    let spec = check(job(json!({ "units": [{ "stdin_base64": "", "files": files }] }))).unwrap();
    let Units::List(units) = spec.units else { panic!("a list") };
    assert_eq!(units[0].stdin, Some(Data::EMPTY));
    assert_eq!(units[0].files[0].data, Data::Inline(Bytes::from_static(b"hi\n")));
    assert_eq!(units[0].files[1].data, Data::Blob(BlobRef { id: input(), len: 7 }));

    let (field, why) = refused(json!({ "files": [{ "path": "a" }] }));
    assert!(field == "files[0].blob" && why.contains("base64"), "{field}: {why}");
    let both = json!({ "stdin": input().to_string(), "stdin_base64": "aGkK" });
    assert!(refused(both).1.contains("not both"));
    let large = "AAAA".repeat(4096 / 3 + 1);
    let error = check(job(json!({ "stdin_base64": large }))).unwrap_err();
    assert!(error.parts().1.contains("upload them"), "{}", error.parts().1);
}
