use super::*;

fn plan(scene: SceneArgs) -> Result<JobPlan, Failure> {
    JobPlan::new(Path::new("dir/tool.wasm"), vec![], &scene, &JobSettings::default())
}

#[test]
fn files_arrive_under_their_relative_path_or_the_name_given() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a=b");
    std::fs::write(&odd, "x").unwrap();
    let odd = odd.display().to_string();
    let files = vec!["/etc/hosts".to_owned(), "x/y.txt=data/in.txt".into(), odd.clone()];
    let plan = plan(SceneArgs { files, ..SceneArgs::default() }).unwrap();
    let names: Vec<&str> = plan.files.keys().map(String::as_str).collect();
    assert!(names.contains(&"etc/hosts"));
    assert!(names.contains(&"data/in.txt"));
    assert!(names.contains(&odd.trim_start_matches('/')), "a file that exists is taken by its whole name");
    assert_eq!(plan.name, "tool");
}

#[test]
fn two_files_of_one_name_are_refused() {
    let files = vec!["a=data".to_owned(), "b=./data".into()];
    let error = plan(SceneArgs { files, ..SceneArgs::default() }).unwrap_err();
    assert_eq!((error.code, error.message.contains("two files named data")), (2, true));
}

#[test]
fn variables_are_read_up_to_the_first_equals_sign() {
    let environment = vec!["A=b=c".to_owned(), "E=".into()];
    let ok = plan(SceneArgs { environment, ..SceneArgs::default() }).unwrap();
    assert_eq!(ok.environment["A"], "b=c");
    assert_eq!(ok.environment["E"], "");
    for bad in ["NAME", "=x"] {
        let environment = vec![bad.to_owned()];
        assert_eq!(plan(SceneArgs { environment, ..SceneArgs::default() }).unwrap_err().code, 2);
    }
}

#[test]
fn every_missing_input_is_named_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = plan(SceneArgs::default()).unwrap();
    let unit = |name: &str| UnitPlan {
        files: vec![(name.to_owned(), dir.path().join(name))],
        ..UnitPlan::default()
    };
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    plan.units = UnitsPlan::List(vec![unit("gone.txt"), unit("folder")]);
    let error = plan.check().unwrap_err();
    assert_eq!(error.code, 2);
    assert!(error.message.contains("program dir/tool.wasm: no such file"), "{}", error.message);
    assert!(error.message.contains("gone.txt: no such file"), "{}", error.message);
    assert!(error.message.contains("folder: it is a folder"), "{}", error.message);
}

#[test]
fn an_input_cannot_hide_a_file_that_all_units_have() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, "x").unwrap();
    let here = path.display().to_string();
    let scene = SceneArgs { files: vec![format!("{here}=data")], ..SceneArgs::default() };
    let mut plan = JobPlan::new(&path, vec![], &scene, &JobSettings::default()).unwrap();
    plan.check().unwrap();
    let files = vec![("data".to_owned(), path)];
    plan.units = UnitsPlan::List(vec![UnitPlan { files, ..UnitPlan::default() }]);
    assert!(plan.check().unwrap_err().message.contains("two files named data"));
}

#[test]
fn settings_in_messages_are_called_as_their_options_are() {
    let said =
        with_options("`max_price_job`: too little; ended: ran longer (raise time_limit), not my_time_limit");
    assert_eq!(
        said,
        "--max-price-job: too little; ended: ran longer (raise --time-limit), not my_time_limit"
    );
}
