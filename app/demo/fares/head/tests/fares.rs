use fares::{daily_fare, fare};

#[test]
fn one_zone_is_the_base_fare() {
    assert_eq!(fare(1), 220);
}

#[test]
fn each_further_zone_adds_to_it() {
    assert_eq!(fare(3), 380);
}

#[test]
fn three_rides_cost_the_whole_fare() {
    assert_eq!((1..=3).map(|ride| daily_fare(1, ride)).sum::<u32>(), 660);
}

#[test]
fn the_fourth_ride_costs_half() {
    assert_eq!(daily_fare(1, 4), 110);
}
