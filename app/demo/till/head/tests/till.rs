use till::{change, total, Line};

#[test]
fn an_empty_basket_costs_nothing() {
    assert_eq!(total(&[]), 0);
}

#[test]
fn lines_are_multiplied_and_added() {
    assert_eq!(total(&[Line::new("bread", 320, 1), Line::new("roll", 45, 4)]), 500);
}

#[test]
fn the_customer_gets_the_rest_back() {
    assert_eq!(change(&[Line::new("bread", 320, 1)], 500), Some(180));
}

#[test]
fn too_little_gives_nothing_back() {
    assert_eq!(change(&[Line::new("bread", 320, 1)], 300), None);
}
