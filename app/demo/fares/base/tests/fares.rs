use fares::fare;

#[test]
fn one_zone_is_the_base_fare() {
    assert_eq!(fare(1), 220);
}

#[test]
fn each_further_zone_adds_to_it() {
    assert_eq!(fare(3), 380);
}
