/* Values: making, sharing and asking them; keys as in Python; errors of every wrong use, as docs/errors.md lists them. */
#include "support/check.h"
#include "support/refused.h"
#include <facula.h>

static fa_values *s;

static int begin_values(void **state) {
    if (begin(state) != 0) return -1;
    s = fa_values_new();
    return s == NULL ? -1 : 0;
}

static void scalars(void **state) {
    (void)state;
    size_t n;
    double parts[2];
    assert_ptr_equal(fa_values_none(s), fa_values_none(s)); /* one value each, as in Python */
    assert_ptr_equal(fa_values_bool(s, true), fa_values_bool(s, true));
    assert_true(fa_value_bool(fa_values_bool(s, true)) && !fa_value_bool(fa_values_bool(s, false)));
    assert_int_equal(fa_value_int(fa_values_int(s, -5)), -5);
    assert_int_equal(fa_value_int(fa_values_bool(s, true)), 1);
    assert_true(fa_value_float(fa_values_float(s, 0.5)) == 0.5 && fa_value_float(fa_values_int(s, 3)) == 3);
    assert_true(fa_value_complex(fa_values_complex(s, 1, 2), parts) && parts[0] == 1 && parts[1] == 2);
    assert_string_equal(fa_value_text(fa_values_text_of(s, "a\0b", 3), &n), "a");
    assert_int_equal(n, 3);
    assert_memory_equal(fa_value_bytes(fa_values_bytes(s, FA_VALUE_BYTE_ARRAY, "\xff\0", 2), &n), "\xff\0", 2);
    assert_int_equal(fa_value_dtype(fa_values_dtype(s, FA_INT8)), FA_INT8);
    assert_true(fa_device_equal(fa_value_device(fa_values_device(s, FA_CUDA(3))), FA_CUDA(3)));
    assert_string_equal(fa_value_text(fa_values_global(s, "a.b", "C"), NULL), "a.b.C");
    fa_tensor *t = counting(FA_SHAPE(3));
    assert_ptr_equal(fa_value_tensor(fa_values_parameter(s, t)), t);
    assert_int_equal(fa_value_kind_of(NULL), 0);
    assert_string_equal(fa_value_kind_name(FA_VALUE_ORDERED_DICT), "OrderedDict");
    assert_true(fa_values_count(s) > fa_value_index(fa_values_int(s, 7)) - 1 && fa_values_of(fa_values_none(s)) == s);
}

static void big_ints(void **state) {
    (void)state;
    static const struct {
        unsigned char bytes[10];
        size_t n;
        int64_t value;
    } small[] = {{{0}, 0, 0},
                 {{0xff}, 1, -1},
                 {{0x80, 0}, 2, 128},
                 {{0, 0, 0, 0, 0, 0, 0, 0x80, 0xff}, 9, INT64_MIN},
                 {{5, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 10, 5}};
    size_t n;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        assert_int_equal(fa_value_int(fa_values_big_int(s, small[i].bytes, small[i].n)), small[i].value);
    const fa_value *big = fa_values_big_int(s, "\0\0\0\0\0\0\0\x80\0", 9);
    assert_int_equal(fa_value_kind_of(big), FA_VALUE_BIG_INT);
    assert_non_null(fa_value_bytes(big, &n));
    assert_int_equal(n, 9);
}

static void keys_as_in_python(void **state) {
    (void)state;
    fa_value *dict = fa_values_container(s, FA_VALUE_DICT), *set = fa_values_container(s, FA_VALUE_SET);
    fa_value *first = fa_values_int(s, 1), *a = fa_values_container(s, FA_VALUE_TUPLE),
             *b = fa_values_container(s, FA_VALUE_TUPLE);
    assert_true(fa_value_put(dict, first, fa_values_text(s, "int")) &&
                fa_value_put(dict, fa_values_float(s, 1.0), fa_values_text(s, "float")) &&
                fa_value_put(dict, fa_values_bool(s, true), fa_values_text(s, "bool")));
    assert_int_equal(fa_value_length(dict), 1);
    assert_ptr_equal(fa_value_key(dict, 0), first); /* the first key stays, with the last value */
    assert_string_equal(fa_value_text(fa_value_item(dict, 0), NULL), "bool");
    for (int i = 0; i < 1000; i++) { /* far beyond the few keys that are searched one by one */
        char name[20];
        snprintf(name, sizeof name, "key %d", i);
        assert_true(fa_value_set(dict, name, fa_values_int(s, i)) && fa_value_append(set, fa_values_int(s, i % 300)));
    }
    assert_int_equal(fa_value_length(dict), 1001);
    assert_int_equal(fa_value_length(set), 300);
    assert_int_equal(fa_value_int(fa_value_get(dict, "key 777")), 777);
    assert_int_equal(fa_value_int(fa_value_item(dict, -1)), 999);
    fa_value_append(a, fa_values_text(s, "x")), fa_value_append(b, fa_values_text(s, "x"));
    assert_true(fa_value_put(dict, a, fa_values_int(s, -1)));
    assert_int_equal(fa_value_int(fa_value_look_up(dict, b)), -1);
    assert_null(fa_value_find(dict, "key 1000"));
    fa_value *other = fa_values_text(fa_values_new(), "key 5"); /* of another document */
    assert_int_equal(fa_value_int(fa_value_look_up(dict, other)), 5);
}

static void named_tensors(void **state) {
    (void)state;
    fa_tensors *tensors = fa_tensors_new();
    assert_true(fa_tensors_add(tensors, "a", watch(counting(FA_SHAPE(2)))) && fa_tensors_add(tensors, "b", counting(FA_SHAPE(3))));
    fa_value *dict = fa_values_of_tensors(s, tensors);
    fa_tensors *back = fa_value_tensors(dict);
    assert_int_equal(fa_tensors_count(back), 2);
    assert_ptr_equal(fa_tensors_get(back, "b"), fa_tensors_get(tensors, "b"));
    fa_value_put(dict, fa_values_text_of(s, "c\0", 2), fa_value_item(dict, 0));
    REFUSED(fa_value_tensors(dict), TYPE, "key number 2 is a str with a zero in it; named tensors have texts as keys");
    dict = fa_values_container(s, FA_VALUE_DICT);
    fa_value_set(dict, "epoch", fa_values_int(s, 1));
    REFUSED(fa_value_tensors(dict), TYPE, "\"epoch\" is of type int, no tensor: this is no state dict; if one lies in it");
    REFUSED(fa_value_tensors(fa_values_none(s)), TYPE, "named tensors stand in a dict; this is a NoneType");
    unwatch();
}

static void wrong_kinds(void **state) {
    (void)state;
    fa_value *one = fa_values_int(s, 1), *list = fa_values_container(s, FA_VALUE_LIST),
             *dict = fa_values_container(s, FA_VALUE_DICT);
    REFUSED(fa_value_bool(one), TYPE, "bool was expected, but the value is of type int");
    REFUSED(fa_value_int(list), TYPE, "int of at most 64 bits was expected, but the value is of type list");
    REFUSED(fa_value_tensor(one), TYPE, "Tensor was expected, but the value is of type int");
    REFUSED(fa_value_length(one), TYPE, "object of type 'int' has no len()");
    REFUSED(fa_value_item(list, 0), INDEX, "index 0 is out of range; the list has 0 items");
    REFUSED(fa_value_key(list, 0), TYPE, "dicts have keys; this is a list");
    REFUSED(fa_value_get(list, "a"), TYPE, "dicts have keys; this is a list");
    REFUSED(fa_value_get(dict, "a"), KEY, "'a': there is no such key among 0; there are: no texts");
    REFUSED(fa_value_append(dict, one), TYPE, "items are appended to tuples, lists and sets; this is a dict");
    REFUSED(fa_value_append(fa_values_container(s, FA_VALUE_SIZE), list), TYPE, "a torch.Size holds ints; this is a list");
    REFUSED(fa_value_append(fa_values_container(s, FA_VALUE_SET), list), TYPE, "unhashable type: 'list'");
    REFUSED(fa_value_put(list, one, one), TYPE, "values are put into dicts by a key; this is a list");
    REFUSED(fa_value_put(dict, dict, one), TYPE, "unhashable type: 'dict'");
    REFUSED(fa_value_set_state(list, dict), TYPE, "a list has no state");
    REFUSED(fa_values_container(s, FA_VALUE_INT), VALUE, "kind 3 is none of tuple, size, list, set and dicts");
    REFUSED(fa_values_bytes(s, FA_VALUE_TEXT, "a", 1), VALUE, "kind 7 is neither FA_VALUE_BYTES nor FA_VALUE_BYTE_ARRAY");
    REFUSED(fa_values_dtype(s, (fa_dtype)99), TYPE, "99 is no dtype");
    REFUSED(fa_values_text(s, "\xff"), VALUE, "a text is no UTF-8");
    REFUSED(fa_values_global(s, "os", "a b"), VALUE, "\"os.a b\" is no name of a class or function");
    REFUSED(fa_values_object(s, one, list, false), TYPE,
            "an object is made of a global and a tuple; a int and a list were given");
}

static void two_documents(void **state) {
    (void)state;
    fa_values *other = fa_values_new();
    fa_value *theirs = fa_values_int(other, 1), *list = fa_values_container(s, FA_VALUE_LIST),
             *dict = fa_values_container(s, FA_VALUE_ORDERED_DICT);
    REFUSED(fa_value_append(list, theirs), VALUE, "the item is a value of another document");
    REFUSED(fa_value_put(dict, theirs, list), VALUE, "the key or the value is one of another document");
    REFUSED(fa_value_set_state(dict, theirs), VALUE, "the state is a value of another document");
    REFUSED(fa_values_set_root(s, theirs), VALUE, "the root is a value of another document");
    fa_value *class = fa_values_global(other, "a", "b"), *none = fa_values_container(s, FA_VALUE_TUPLE);
    REFUSED(fa_values_object(s, class, none, false), VALUE, "the class or the arguments are values of another document");
}

/* A document is as good as NULL when there was no memory for it: everything passes that on in silence. */
static void null_is_passed_on(void **state) {
    (void)state;
    fa_value *v = fa_values_int(NULL, 1);
    assert_null(v);
    assert_null(fa_values_container(NULL, FA_VALUE_LIST));
    assert_false(fa_value_append(v, v) || fa_value_set(v, "a", v) || fa_values_set_root(s, v) || fa_value_set_state(v, v));
    assert_true(fa_value_int(v) == 0 && fa_value_length(v) == 0 && fa_value_text(v, NULL) == NULL && fa_value_tensors(v) == NULL);
    assert_true(fa_value_item(v, 0) == NULL && fa_value_get(v, "a") == NULL && fa_values_root(NULL) == NULL);
    assert_false(fa_failed());
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_values, end)
    const struct CMUnitTest tests[] = {
        TEST(scalars),     TEST(big_ints),      TEST(keys_as_in_python), TEST(named_tensors),
        TEST(wrong_kinds), TEST(two_documents), TEST(null_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
