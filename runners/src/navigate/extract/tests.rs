use super::*;

fn tags(language: Language, source: &str) -> FileTags {
    Reader::new().read(language, source.as_bytes()).unwrap()
}

/// Definitions as `line name`, indented by what is around them; then the references.
fn told(language: Language, source: &str) -> String {
    let tags = tags(language, source);
    let definitions: Vec<_> = tags.definitions().collect();
    let mut told = String::new();
    for definition in &definitions {
        let mut depth = 0;
        let mut around = definition.parent;
        while let Some(place) = around {
            depth += 1;
            around = definitions[place as usize].parent;
        }
        told.push_str(&format!("{}{} {}\n", "  ".repeat(depth), definition.line, definition.name));
    }
    let references: Vec<_> = tags.references().map(|found| found.name.to_owned()).collect();
    told + "-> " + &references.join(" ")
}

#[test]
fn rust_is_read() {
    insta::assert_snapshot!(told(Language::Rust, "\
use std::fmt::Debug;
const LIMIT: usize = 3;
macro_rules! twice { ($x:expr) => { $x } }
pub struct Point { x: i32 }
impl Point {
    pub fn norm(&self) -> Length { scale(self.xs.total(), LIMIT); assert_eq!(helper(1), 1); Length::new() }
}
enum Shape { Round(Point), Flat }
trait Draw { fn draw(&self, on: &Canvas); }
mod inner { fn hidden() { super::outer() } }
mod elsewhere;
"), @"
    2 LIMIT
    3 twice
    4 Point
    5 Point
      6 norm
    8 Shape
      8 Round
      8 Flat
    9 Draw
      9 draw
    10 inner
      10 hidden
    -> Canvas Debug Length Point assert_eq fmt helper new outer scale total xs
    ");
}

#[test]
fn python_is_read() {
    insta::assert_snapshot!(told(Language::Python, "\
import os.path
from shop.cart import Cart as Basket
LIMIT = 3
class Order(Base, metaclass=Meta):
    kind: Kind = None
    @cached
    def total(self, cart: Cart) -> Money:
        amount = sum(item.price for item in cart.items())
        return rounded(amount)
async def main():
    try:
        Order().total(Basket())
    except ShopError:
        raise Failure
"), @"
    3 LIMIT
    4 Order
      5 kind
      7 total
    10 main
    -> Base Basket Cart Failure Kind Meta Money Order ShopError amount cached cart items os path price rounded shop sum total
    ");
}

#[test]
fn javascript_is_read() {
    insta::assert_snapshot!(told(Language::JavaScript, "\
import Shop, { Cart } from './shop';
export const LIMIT = 3;
const total = (cart) => { const inner = cart.sum(); return round(inner); };
export class Order extends Base {
  static of(cart) { return new Order(cart); }
  #secret() {}
}
function* each() {}
module.exports.later = each;
const view = <Panel title={1}><Row /></Panel>;
"), @"
    2 LIMIT
    3 total
    4 Order
      5 of
      6 #secret
    8 each
    9 later
    10 view
    -> Base Cart Order Panel Row Shop cart exports inner round sum
    ");
}

#[test]
fn typescript_and_tsx_are_read() {
    insta::assert_snapshot!(told(Language::TypeScript, "\
import { Cart } from './shop';
export interface Priced { price(unit: Unit): Money }
type Id = string | Key;
enum Color { Red }
abstract class Order extends Base<Cart> implements Priced {
  abstract close(): void;
  price(unit: Unit): Money { return convert(unit); }
}
namespace Shop { export const open = true; }
"), @"
    2 Priced
      2 price
    3 Id
    4 Color
    5 Order
      6 close
      7 price
    9 Shop
      9 open
    -> Base Cart Key Money Priced Unit convert unit
    ");
    insta::assert_snapshot!(told(Language::Tsx, "\
export function App(props: Props) { return <Panel on={handle}><Row /></Panel>; }
"), @"
    1 App
    -> Panel Props Row
    ");
}

#[test]
fn go_is_read() {
    insta::assert_snapshot!(told(Language::Go, "\
package shop
import \"fmt\"
const Limit = 3
var global = make(Cache)
type Order struct { cart *Cart }
type Priced interface { Price(unit Unit) Money }
func (o *Order) Total() Money { inner := o.cart.Sum(); return Round(inner) }
func main() { var local = 1; fmt.Println(NewOrder(local)) }
"), @"
    3 Limit
    4 global
    5 Order
    6 Priced
      6 Price
    7 Total
    8 main
    -> Cache Cart Money NewOrder Order Println Round Sum Unit cart inner local make
    ");
}

#[test]
fn java_is_read() {
    insta::assert_snapshot!(told(Language::Java, "\
package shop;
import shop.cart.Cart;
@Entity
public class Order extends Base implements Priced {
    static final int LIMIT = 3;
    Order(Cart cart) { int local = cart.size(); }
    public Money total() { return Rates.convert(this.amount).map(Money::of); }
}
enum Color { RED, BLUE }
record Pair(int left, int right) {}
"), @"
    4 Order
      5 LIMIT
      6 Order
      7 total
    9 Color
      9 RED
      9 BLUE
    10 Pair
    -> Base Cart Entity Money Priced Rates amount cart convert map of size
    ");
}

#[test]
fn c_sharp_is_read() {
    insta::assert_snapshot!(told(Language::CSharp, "\
using System;
namespace Shop;
[Serializable]
public class Order : Base, IPriced {
    private readonly Cart cart;
    public Money Total { get; set; }
    public Order(Cart cart) { var local = new List<Item>(); }
    public Money Sum(Unit unit) => Rates.Convert(cart.Amount(), unit);
}
interface IPriced { Money Sum(Unit unit); }
enum Color { Red }
record Pair(int Left, int Right);
"), @"
    4 Order
      5 cart
      6 Total
      7 Order
      8 Sum
    10 IPriced
      10 Sum
    11 Color
      11 Red
    12 Pair
    -> Amount Base Cart Convert IPriced Item List Money Rates Serializable Unit cart unit
    ");
}

#[test]
fn c_is_read() {
    insta::assert_snapshot!(told(Language::C, "\
#include <stdio.h>
#define LIMIT 3
#define TWICE(x) ((x) * 2)
typedef struct node { struct node *next; value_t value; } node_t;
enum color { RED, BLUE };
static int counter = 0;
node_t *make_node(value_t value);
static int total(const node_t *list, int (*of)(int)) {
    int local = sum(list->value);
    return round_up(local, LIMIT);
}
"), @"
    2 LIMIT
    3 TWICE
    4 node_t
      4 node
    5 color
      5 RED
      5 BLUE
    6 counter
    7 make_node
    8 total
    -> LIMIT local node node_t round_up sum value value_t
    ");
}

#[test]
fn cpp_is_read() {
    insta::assert_snapshot!(told(Language::Cpp, "\
#include <vector>
namespace shop {
class Order : public Base<Cart> {
public:
  explicit Order(Cart cart);
  Money total() const { return convert<Money>(cart_.sum()); }
private:
  Cart cart_;
};
template <typename T> T twice(T value) { return value + rates::of(value); }
using Orders = std::vector<Order>;
}
Money shop::Order::total() const { Order local(other()); return local.price; }
"), @"
    2 shop
      3 Order
        5 Order
        6 total
      10 twice
      11 Orders
    13 total
    -> Base Cart Money Order convert of other price sum value vector
    ");
}

#[test]
fn a_file_that_is_too_large_or_no_source_is_not_read() {
    let mut reader = Reader::new();
    let large = "x = 1\n".repeat(MAX_BYTES / 6 + 1);
    assert_eq!(reader.read(Language::Python, large.as_bytes()), Err(NotRead::TooLarge));
    assert_eq!(reader.read(Language::Python, b"\x00\x01"), Err(NotRead::NoText));
    let minified = "var a=1;".repeat(4_000);
    assert_eq!(reader.read(Language::JavaScript, minified.as_bytes()), Err(NotRead::Generated));
}

#[test]
fn deep_nesting_is_cut_and_not_followed() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ")"), ("if x:\n ", ""), ("<a>", "</a>")]
    {
        let source = format!("{}{}\n", format!("{open}\n").repeat(5_000), close.repeat(5_000));
        for language in Language::ALL {
            // Any end is good, as long as there is one.
            let _ = Reader::new().read(language, source.as_bytes());
        }
    }
}

#[test]
fn a_parser_that_was_stopped_reads_the_next_file_from_its_begin() {
    let mut reader = Reader::new();
    let hard = "a<b>c<".repeat(60_000).replace("c<", "c<\n");
    let _ = reader.read(Language::Cpp, hard.as_bytes());
    let tags = reader.read(Language::Cpp, b"class Next {};\n").unwrap();
    assert_eq!(tags.definitions().map(|tag| (tag.line, tag.name)).collect::<Vec<_>>(), [(1, "Next")]);
}

#[test]
fn what_one_file_may_define_and_name_is_bounded() {
    let source: String = (0..10_000).map(|at| format!("def name_{at}(): call_{at}()\n")).collect();
    let tags = tags(Language::Python, &source);
    assert_eq!(tags.definitions().count(), MAX_DEFINITIONS);
    assert_eq!(tags.references().count(), MAX_NAMES);
    let long = format!("def {}(): pass\ndef ok(): pass\n", "x".repeat(5_000));
    assert_eq!(tags_named(&long), ["ok"]);
}

fn tags_named(source: &str) -> Vec<String> {
    tags(Language::Python, source).definitions().map(|tag| tag.name.to_owned()).collect()
}

#[test]
fn a_line_is_kept_as_one_line_of_text() {
    let tags = tags(Language::Python, "\tdef f(self,\tother='\u{1b}[2J'): pass\n");
    let texts: Vec<_> = tags.definitions().map(|tag| tag.text.to_owned()).collect();
    assert_eq!(texts, Vec::<String>::new(), "a name of one letter is none");
    let found = Reader::new().read(Language::Python, "\tdef ff(self,\tother='\u{1b}[2J'): pass\n".as_bytes());
    let texts: Vec<_> = found.unwrap().definitions().map(|tag| tag.text.to_owned()).collect();
    assert_eq!(texts, ["def ff(self, other=' [2J'): pass"]);
}

proptest::proptest! {
    /// The parsers are made of C: whatever the bytes, they must come to an end and give tags that can be read.
    #[test]
    fn any_bytes_are_read_to_an_end(seed: u64, cuts in proptest::collection::vec((0_usize..4_000, 0_u8..255), 0..40)) {
        let samples = [
            include_str!("../extract.rs"), include_str!("../rules/tables.rs"), "class A<T>{ @b void c(){ d(); } }",
            "def f(x: 'y'):\n\treturn f\"{x!r:>{w}}\"\n", "a = <b c={`${d}`}>{e}</b>; // \\", "#if 1\nint f(){\n#else\n}\n#endif",
        ];
        let mut source = samples[(seed % samples.len() as u64) as usize].as_bytes().to_vec();
        source.truncate(4_000);
        for (at, byte) in cuts {
            let at = at % source.len();
            source[at] = byte;
        }
        for language in Language::ALL {
            if let Ok(tags) = Reader::new().read(language, &source) {
                for tag in tags.definitions() {
                    proptest::prop_assert!(tag.line >= 1 && !tag.name.is_empty() && tag.text.len() <= 3 * MAX_TEXT);
                }
            }
        }
    }
}
