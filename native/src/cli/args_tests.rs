use super::super::files_args::FilesCommand;
use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_from_words(line.split_whitespace().map(OsString::from)).map(|cli| cli.command)
}

fn run(line: &str) -> RunArgs {
    match parse(line) {
        Ok(Command::Run(args)) => *args,
        other => panic!("{line}: {other:?}"),
    }
}

fn map(line: &str) -> MapArgs {
    match parse(line) {
        Ok(Command::Map(args)) => *args,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn our_options_stand_anywhere_and_others_go_to_the_program() {
    let args = run("manyhands run a.wasm -n 5 --file x.txt --depth=3 --file y=z word");
    assert_eq!(args.arguments, ["-n", "5", "--depth=3", "word"]);
    assert_eq!(args.scene.files, ["x.txt", "y=z"]);

    let args = run("manyhands run --time-limit 10m a.wasm x -- --file --help -- y");
    assert_eq!(args.arguments, ["x", "--file", "--help", "--", "y"]);
    assert!(args.settings.time_limit.is_some());
}

#[test]
fn programs_keep_what_looks_like_ours_when_it_is_marked() {
    let args = run("manyhands --data d run a.wasm --arg --output --arg=--file x");
    assert_eq!(args.arguments, ["--output", "--file", "x"]);
    let args = run("manyhands run -- -odd.wasm x --file");
    assert_eq!((args.program, args.arguments), ("-odd.wasm".into(), vec!["x".into(), "--file".into()]));
    let args = map("manyhands map a.wasm --arg --file - {} -- in");
    assert_eq!(args.arguments, ["--file", "-", "{}"]);
    assert_eq!(parse("manyhands run a.wasm --help").unwrap_err().exit_code(), 0);
}

#[test]
fn the_swarm_may_be_named_before_the_command() {
    let jobs = |line: &str| match parse(line) {
        Ok(Command::Jobs(args)) => (args.swarm.gateway, args.swarm.token, args.limit),
        other => panic!("{line}: {other:?}"),
    };
    let named = (Some("http://a:1".to_owned()), Some("t".to_owned()), 5);
    assert_eq!(jobs("manyhands --gateway http://a:1 --token=t jobs --limit 5"), named);
    assert_eq!(jobs("manyhands --data d --token t jobs --gateway http://a:1 --limit 5"), named);
    let Ok(Command::Files(args)) = parse("manyhands --token t files --gateway http://a:1 rm ab") else {
        panic!()
    };
    let Some(FilesCommand::Rm { swarm, .. }) = args.what else { panic!() };
    assert_eq!((swarm.gateway.as_deref(), swarm.token.as_deref()), (Some("http://a:1"), Some("t")));
    let Ok(Command::Files(args)) = parse("manyhands files --gateway http://a:1") else { panic!() };
    assert_eq!(args.swarm.gateway.as_deref(), Some("http://a:1"));
    let args = run("manyhands --gateway http://a:1 run a.wasm --token x --depth 3");
    assert_eq!((args.swarm.gateway.as_deref(), args.swarm.token.as_deref()), (Some("http://a:1"), Some("x")));
    assert_eq!(args.arguments, ["--depth", "3"]);
    for line in ["manyhands --gateway http://a:1 up", "manyhands --token t demo", "manyhands --gateway"] {
        assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
    }
}

#[test]
fn a_mistyped_option_before_the_program_is_a_mistake() {
    let error = parse("manyhands run --flie x a.wasm").unwrap_err().to_string();
    assert!(error.contains("--file"), "{error}");
}

#[test]
fn map_takes_inputs_behind_the_dashes() {
    let args = map("manyhands map a.wasm --top 5 {} --keep-going -- a.txt -b.txt");
    assert_eq!(args.arguments, ["--top", "5", "{}"]);
    assert_eq!(args.inputs, [PathBuf::from("a.txt"), "-b.txt".into()]);
    assert!(args.keep_going);
    assert!(map("manyhands map a.wasm -- -").arguments.is_empty());
}

#[test]
fn up_says_what_was_given_and_nothing_else() {
    let Ok(Command::Up(args)) = parse("manyhands up --gateway --slots 0 --join a --join b") else { panic!() };
    assert_eq!(args.gateway, Some(true));
    assert_eq!(args.slots, Some(0));
    assert_eq!(args.join, ["a", "b"]);
    assert_eq!((args.http_port, args.bind), (None, None));
    let Ok(Command::Up(args)) = parse("manyhands up --gateway=false --join a") else { panic!() };
    assert_eq!(args.gateway, Some(false));
}

#[test]
fn wrong_usage_exits_with_2() {
    for line in [
        "manyhands",
        "manyhands dance",
        "manyhands run",
        "manyhands run a.wasm --memory-limit much",
        "manyhands submit j.toml --out-dir d",
        "manyhands results abcd",
        "manyhands jobs --limit 0",
        "manyhands nodes --output yaml",
        "manyhands bench",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    assert_eq!(parse("manyhands --help").unwrap_err().exit_code(), 0);
}

#[test]
fn the_names_that_checks_rely_on_are_there() {
    for line in [
        "manyhands bench null --json",
        "manyhands bench null --browser --json",
        "manyhands bench kernel --json",
        "manyhands bench page --json",
        "manyhands bench idle --json",
        "manyhands bench ledger --json",
        "manyhands demo --json",
        "manyhands demo --stay",
        "manyhands cancel 1234 --output json",
        "manyhands results 1234 -o out",
        "manyhands completions bash",
        "manyhands engine-slot",
    ] {
        parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
}
