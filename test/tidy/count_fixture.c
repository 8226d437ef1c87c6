/*
 * A cmocka program that ends in the way its argument names, so that count_selftest.py can show
 * tools/count-tests.py what cmocka really prints.  It is no test by itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void good(void **state)
{
	print_message("[       OK ] this line is the test's own\n");
}

static void bad(void **state)
{
	assert_int_equal(1, 2);
}

static void skipped(void **state)
{
	print_message("there is no such device here\n");
	skip();
}

static void vanishes(void **state)
{
	_exit(0);
}

static int broken_set_up(void **state)
{
	return -1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest all_good[] = {cmocka_unit_test(good),
					      cmocka_unit_test_setup(good, NULL)};
	const struct CMUnitTest one_bad[] = {cmocka_unit_test(good), cmocka_unit_test(bad),
					     cmocka_unit_test(skipped)};
	const struct CMUnitTest lost[] = {cmocka_unit_test(good), cmocka_unit_test(vanishes),
					  cmocka_unit_test(good)};
	const struct CMUnitTest set_up[] = {cmocka_unit_test_setup(good, broken_set_up)};
	const char *how = argc > 1 ? argv[1] : "";

	if (strcmp(how, "good") == 0)
		return cmocka_run_group_tests(all_good, NULL, NULL);
	if (strcmp(how, "bad") == 0)
		return cmocka_run_group_tests(one_bad, NULL, NULL);
	if (strcmp(how, "two-groups") == 0)
		return cmocka_run_group_tests_name("first", all_good, NULL, NULL) +
		       cmocka_run_group_tests_name("second", one_bad, NULL, NULL);
	if (strcmp(how, "lost") == 0)
		return cmocka_run_group_tests(lost, NULL, NULL);
	if (strcmp(how, "set-up") == 0)
		return cmocka_run_group_tests(set_up, NULL, NULL);
	if (strcmp(how, "exit") == 0)
		return cmocka_run_group_tests(all_good, NULL, NULL) + 3;
	return 99;
}
