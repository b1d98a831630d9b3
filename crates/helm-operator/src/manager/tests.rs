//! Tests of the operator's controllers.

use controller::report::chain;

use super::*;

#[test]
fn a_chart_that_cannot_be_loaded_stops_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, "- {group: g, version: v1, kind: Store, chart: no/such/chart}\n").unwrap();
    let manager = Operator::new().watches(&file).unwrap().manager(Config::default());
    let error = manager.of_controllers().map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot serve Store with chart \"no/such/chart\" (line 1 of the watches file)");
    assert!(chain(&error).contains("no/such/chart"), "{}", chain(&error));
}

#[test]
fn code_around_a_chart_that_no_watch_names_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, "- {group: g, version: v1, kind: Store, chart: no/such/chart}\n").unwrap();
    let refused = |kind: &str| {
        let operator = Operator::new().watches(&file).unwrap().chart(kind, |chart| chart);
        operator.controllers().map(|_| ()).unwrap_err().to_string()
    };
    let missing = "the program adds code around the chart of \"Shop\", but watches.yaml has no such kind: \
                   add an entry, or name another kind";
    assert_eq!(refused("Shop"), missing);
    for kind in ["Store", "Store.g"] {
        assert_eq!(refused(kind), "cannot serve Store with chart \"no/such/chart\" (line 1 of the watches file)");
    }
}

#[test]
fn watches_that_contradict_each_other_stop_the_start_wherever_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, "- {group: g, version: v1, kind: Store, chart: no/such/chart}\n").unwrap();
    let of_file = || Operator::new().watches(&file).unwrap();
    let with = |keys: &str, line: u64| {
        let text = format!("- {{group: g, kind: Store, chart: no/such/chart, {keys}}}");
        let parsed = watches::parse(&text, |_| None).unwrap().watches.remove(0);
        of_file().watch(watches::Watch { line, ..parsed }, |chart| chart)
    };
    let refused = |operator: Operator| chain(&operator.controllers().map(|_| ()).unwrap_err());
    let prefix = "the kinds that the operator serves contradict each other: ";
    let twice = "duplicate GVK: g/v1, Kind=Store: line 1 has it already";
    let apart = "the entries of Store must have the same storageNamespace as the one in line 1: \
                 a resource's records stay when its version changes";
    for (operator, expected) in [
        (of_file().watches(&file).unwrap(), format!("line 1: {twice}")),
        (with("version: v1", 3), format!("line 3: {twice}")),
        (with("version: v1", 0), twice.to_owned()),
        (with("version: v2, storageNamespace: records", 0), apart.to_owned()),
    ] {
        assert_eq!(refused(operator), format!("{prefix}{expected}"));
    }
    let versions = refused(with("version: v2", 0));
    assert!(versions.contains("no/such/chart"), "{versions}");
}
