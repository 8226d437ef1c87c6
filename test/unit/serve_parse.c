/*
 * The parser of memcached's protocols: each input with the requests it must give, however it is
 * split: whole, a byte at a time, and in two at every place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/requests.h"
#include "serve/parse.h"

static size_t one_byte(void *context, size_t left)
{
	(void)context;
	(void)left;
	return 1;
}

/* The first part has *context bytes, the second the rest. */
static size_t in_two(void *context, size_t left)
{
	size_t *first = context, part = *first ? *first : left;

	*first = 0;
	return part < left ? part : left;
}

static void expect_bytes(const char *input, size_t bytes, const char *expected)
{
	char *whole = requests_of(input, bytes, NULL, NULL);
	char *single = requests_of(input, bytes, one_byte, NULL);

	assert_string_equal(whole, expected);
	assert_string_equal(single, expected);
	for (size_t at = 1; at < bytes; at++) {
		size_t first = at;
		char *two = requests_of(input, bytes, in_two, &first);

		assert_string_equal(two, expected);
		free(two);
	}
	free(whole);
	free(single);
}

static void expect(const char *input, const char *expected)
{
	expect_bytes(input, strlen(input), expected);
}

#define BAD_LINE "error: CLIENT_ERROR bad command line format\n"
#define KEY_250                                                                            \
	"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk" \
	"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk" \
	"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk" \
	"kkkkkkkkkk"

static void keys_come_one_by_one(void **state)
{
	expect("get a\r\n", "get first last key=a\n");
	expect("get a b  c\n", "get first key=a\nget key=b\nget last key=c\n");
	expect("gets a \r\n", "get cas first key=a\nend\n");
	expect("gat 10 a b\r\ngats -1 c\r\n",
	       "gat exptime=10 first key=a\ngat exptime=10 last key=b\n"
	       "gat exptime=-1 cas first last key=c\n");
	expect("get " KEY_250 " b\r\n", "get first key=" KEY_250 "\nget last key=b\n");
	expect("get " KEY_250 "\r\n", "get first last key=" KEY_250 "\n");
}

static void spaces_before_a_command_mean_nothing(void **state)
{
	expect(" get a\r\n   gets a b\r\n gat 1 a\r\n",
	       "get first last key=a\nget cas first key=a\nget cas last key=b\n"
	       "gat exptime=1 first last key=a\n");
	expect("  mn\r\n set a 1 2 3\r\nabc\r\n",
	       "mn\nstore 0 flags=1 exptime=2 number=0 key=a value=abc\n");
	expect(" \r\n get\r\nmn\r\n", BAD_LINE BAD_LINE "mn\n");
}

static void bad_lines_of_keys_are_refused_once(void **state)
{
	expect("get\r\nmn\r\n", BAD_LINE "mn\n");
	expect("get  \r\nmn\r\n", BAD_LINE "mn\n");
	expect("gat 10\r\nmn\r\n", BAD_LINE "mn\n");
	expect("gat\r\nmn\r\n", BAD_LINE "mn\n");
	expect("gat  \r\nmn\r\n", BAD_LINE "mn\n");
	expect("gats x a b\r\nmn\r\n", "error: CLIENT_ERROR invalid exptime argument\nmn\n");
	expect("get " KEY_250 "x\r\nmn\r\n", BAD_LINE "mn\n");
	expect("get a " KEY_250 "xyz b\r\nmn\r\n", BAD_LINE "mn\n");
	expect("get a  " KEY_250 " " KEY_250 "x\nmn\r\n", BAD_LINE "mn\n");
	expect("gats 1 " KEY_250 " " KEY_250 "x \r\nmn\r\n", BAD_LINE "mn\n");
	expect("get " KEY_250 "  " KEY_250 "\r\nmn\r\n",
	       "get first key=" KEY_250 "\nget last key=" KEY_250 "\nmn\n");
}

/* A line of so many bytes with its end, of which the last key is too long. */
static char *bad_line(size_t bytes)
{
	char *line = malloc(bytes + 1);
	size_t at = 4;

	memcpy(line, "get ", at);
	for (; at + 2 * 251 < bytes; at += 2)
		memcpy(line + at, "a ", 2);
	memset(line + at, 'k', bytes - at);
	line[bytes - 1] = '\n';
	line[bytes] = '\0';
	return line;
}

/* What is longer than any line that is collected is answered until the error. */
static void very_long_lines_are_refused_late(void **state)
{
	for (unsigned over = 0; over < 2; over++) {
		size_t bytes = PARSE_KEYS_BYTES_MAX + over, first = bytes / 2;
		char *line = bad_line(bytes), *whole = requests_of(line, bytes, NULL, NULL),
		     *two = requests_of(line, bytes, in_two, &first);

		assert_string_equal(whole, two);
		if (over)
			assert_non_null(strstr(whole, "get first key=a\nget key=a\n"));
		else
			assert_string_equal(whole, BAD_LINE);
		assert_non_null(strstr(whole, over ? "error later: " : BAD_LINE));
		free(whole);
		free(two);
		free(line);
	}
}

static void stores_bring_their_block(void **state)
{
	expect("set a 1 2 3\r\nabc\r\n", "store 0 flags=1 exptime=2 number=0 key=a value=abc\n");
	expect("add a 0 -1 0\r\n\r\n", "store 1 flags=0 exptime=-1 number=0 key=a value=\n");
	expect("replace a 4294967295 0 2 noreply\r\n\r\n\r\n",
	       "store quiet 2 flags=4294967295 exptime=0 number=0 key=a value=\\0d\\0a\n");
	expect("cas a 0 0 1 18446744073709551615\r\nx\r\n",
	       "store 5 flags=0 exptime=0 number=18446744073709551615 key=a value=x\n");
	expect("cas a 0 0 1 7 noreply\r\nx\r\n",
	       "store quiet 5 flags=0 exptime=0 number=7 key=a value=x\n");
	expect("append a 0 0 1\nx\r\nprepend b 0 0 1\r\ny\r\n",
	       "store 3 flags=0 exptime=0 number=0 key=a value=x\n"
	       "store 4 flags=0 exptime=0 number=0 key=b value=y\n");
	expect_bytes("set b 0 0 3\r\na\0b\r\n", 18,
		     "store 0 flags=0 exptime=0 number=0 key=b value=a\\00b\n");
}

static void a_refused_store_takes_its_block_along(void **state)
{
	expect("set " KEY_250 "k 0 0 1\r\na\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a x 0 1\r\na\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 4294967296 0 1\r\na\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 0 9223372036854775808 1\r\na\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a x 0 1 noreply\r\na\r\nmn\r\n",
	       "error quiet: CLIENT_ERROR bad command line format\nmn\n");
	expect("cas a 0 0 1\r\nb\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 0 0 -1\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 0 0\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 0 0 1 2 3\r\na\r\nmn\r\n", BAD_LINE "mn\n");
	expect("set a 0 0 10\r\nabc\r\nversion\r\n",
	       "error: CLIENT_ERROR bad data chunk\n" BAD_LINE);
}

static void values_beyond_the_limit_are_skipped(void **state)
{
	char input[REQUESTS_VALUE_BYTES_MAX + 100], fits[sizeof(input)];
	int head = sprintf(input, "set a 0 0 %u\r\n", REQUESTS_VALUE_BYTES_MAX + 1);
	char *got;

	memset(input + head, 'x', REQUESTS_VALUE_BYTES_MAX + 1);
	strcpy(input + head + REQUESTS_VALUE_BYTES_MAX + 1, "\r\nmn\r\n");
	got = requests_of(input, strlen(input), one_byte, NULL);
	assert_string_equal(got, "too-large 0 key=a\nmn\n");
	free(got);
	head = sprintf(fits, "ms a %u MR\r\n", REQUESTS_VALUE_BYTES_MAX);
	memset(fits + head, 'x', REQUESTS_VALUE_BYTES_MAX);
	strcpy(fits + head + REQUESTS_VALUE_BYTES_MAX, "\r\nmn\r\n");
	got = requests_of(fits, strlen(fits), one_byte, NULL);
	assert_memory_equal(got, "ms value=xxx", 12);
	assert_string_equal(strrchr(got, 'k'), "key=a flags=M M=R\nmn\n");
	free(got);
	expect("set a 0 0 18446744073709551614\r\nx", "too-large 0 key=a\n");
}

static void other_commands_and_their_errors(void **state)
{
	expect("incr a 18446744073709551615\r\ndecr a 0 noreply\r\n",
	       "arithmetic number=18446744073709551615 key=a\n"
	       "arithmetic quiet decrement number=0 key=a\n");
	expect("incr a 18446744073709551616\r\n",
	       "error: CLIENT_ERROR invalid numeric delta argument\n");
	expect("incr a -1\r\n", "error: CLIENT_ERROR invalid numeric delta argument\n");
	expect("touch a 60\r\n", "touch exptime=60 key=a\n");
	expect("touch a x\r\n", "error: CLIENT_ERROR invalid exptime argument\n");
	expect("touch a\r\n", BAD_LINE);
	expect("delete a\r\ndelete a 0\r\ndelete a noreply\r\ndelete a 0 noreply\r\n",
	       "delete key=a\ndelete key=a\ndelete quiet key=a\ndelete quiet key=a\n");
	expect("delete a 5\r\n", "error: CLIENT_ERROR bad command line format.  Usage: delete "
				 "<key> [noreply]\n");
	expect("delete noreply\r\n", "delete key=noreply\n");
	expect("delete\r\nincr\r\ntouch\r\nset\r\nverbosity\r\n",
	       BAD_LINE BAD_LINE BAD_LINE BAD_LINE BAD_LINE);
	expect("flush_all\r\nflush_all 10\r\nflush_all noreply\r\nflush_all 0 noreply\r\n",
	       "flush exptime=0\nflush exptime=10\nflush quiet exptime=0\nflush quiet exptime=0\n");
	expect("flush_all abc\r\n", "error: CLIENT_ERROR invalid exptime argument\n");
	expect("verbosity 1\r\nverbosity 0 noreply\r\n", "verbosity\nverbosity quiet\n");
	expect("version\nstats\r\nstats items\r\n", "version\nstats group=\nstats group=items\n");
	expect("bogus\r\nGET a\r\n\r\n", "error: ERROR\nerror: ERROR\n" BAD_LINE);
	expect("stats cachedump 1 0\r\nstats cachedump\r\nlru_crawler\r\n",
	       "error: CLIENT_ERROR stats cachedump not allowed\n"
	       "error: CLIENT_ERROR stats cachedump not allowed\nerror: ERROR\n");
	expect("lru_crawler metadump all\r\nmn\r\n", "close: ERROR metadump not allowed\n");
	expect("quit\r\nmn\r\n", "quit\n");
	expect("GET / HTTP/1.0\r\n\r\n", "close: \n");
}

static void a_line_has_an_end(void **state)
{
	char input[3000];
	char *got;

	memset(input, 'x', sizeof(input));
	got = requests_of(input, sizeof(input), one_byte, NULL);
	assert_string_equal(got, "close: CLIENT_ERROR line too long\n");
	free(got);
	/* But one of keys need not. */
	memset(input, ' ', sizeof(input));
	memcpy(input, "get a", 5);
	memcpy(input + sizeof(input) - 4, "b\r\n", 4);
	got = requests_of(input, sizeof(input) - 1, one_byte, NULL);
	assert_string_equal(got, "get first key=a\nget last key=b\n");
	free(got);
}

static void meta_commands_keep_the_order_of_flags(void **state)
{
	expect("mg a\r\n", "mg key=a flags=\n");
	expect("mg a v t k Oxyz q N30 R10 T-1\r\n",
	       "mg quiet key=a flags=vtkOqNRT T=-1 N=30 R=10 O=xyz\n");
	expect("ms a 2 c T60 F5 I C77\r\nhi\r\n", "ms value=hi key=a flags=cTFIC F=5 T=60 C=77\n");
	expect("md a I T30 C5 x E3\r\n", "md key=a flags=ITCxE T=30 C=5\n");
	expect("ma a MD D10 J7 N0 v\r\n", "ma key=a flags=MDJNv M=D N=0 D=10 J=7\n");
	expect("ma a\r\nma a M+\r\nma a Md\r\n",
	       "ma key=a flags=\nma key=a flags=M M=I\nma key=a flags=M M=D\n");
	expect("mn\r\nme a\r\nmn q k\r\n", "mn\nme key=a flags=\nmn\n");
}

static void base64_keys_are_decoded(void **state)
{
	expect("mg Zm9v b k\r\n", "mg key=foo flags=bk sent=Zm9v\n");
	expect("ms aGk= 1 b\r\nx\r\n", "ms value=x key=hi flags=b sent=aGk=\n");
	expect("mg AA== b\r\n", "mg key=\\00 flags=b sent=AA==\n");
	expect("mg aGk b\r\nmg aG=k b\r\nmg aGl= b\r\nmg ==== b\r\nmg @@@@ b\r\n",
	       "error: CLIENT_ERROR error decoding key\nerror: CLIENT_ERROR error decoding key\n"
	       "error: CLIENT_ERROR error decoding key\nerror: CLIENT_ERROR error decoding key\n"
	       "error: CLIENT_ERROR error decoding key\n");
	expect("ms @@@ 2 b\r\nhi\r\nmn\r\n", "error: CLIENT_ERROR error decoding key\nmn\n");
}

static void bad_meta_flags_are_named(void **state)
{
	expect("mg\r\nme\r\nmd\r\nma\r\nms\r\nms a\r\nms a S1\r\n",
	       BAD_LINE BAD_LINE BAD_LINE BAD_LINE BAD_LINE BAD_LINE BAD_LINE);
	expect("mg a v v\r\n", "error: CLIENT_ERROR duplicate flag\n");
	expect("mg a y\r\nmg a \x80\r\n",
	       "error: CLIENT_ERROR invalid flag\nerror: CLIENT_ERROR invalid flag\n");
	expect("mg a T\r\nmg a Nx\r\nms a 1 C-1\r\nx\r\n",
	       "error: CLIENT_ERROR bad token in command line format\n"
	       "error: CLIENT_ERROR bad token in command line format\n"
	       "error: CLIENT_ERROR bad token in command line format\n");
	expect("ms a 2 MZ\r\nyo\r\nmn\r\n",
	       "error: CLIENT_ERROR invalid mode for ms M token\nmn\n");
	expect("ms a 2 M\r\nyo\r\nmn\r\n",
	       "error: CLIENT_ERROR incorrect length for M token\nmn\n");
	expect("ma a MZ\r\n", "error: CLIENT_ERROR invalid mode for ma M token\n");
	expect("mg a Dx\r\nma a Jx\r\n", "error: CLIENT_ERROR invalid numeric delta value\n"
					 "error: CLIENT_ERROR invalid numeric initial value\n");
	expect("mg a O123456789012345678901234567890123\r\n",
	       "error: CLIENT_ERROR opaque token too long\n");
	expect("mg a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
	       "a a a a\r\nmn\r\n",
	       "error: CLIENT_ERROR options flags are too long\nmn\n");
	expect("mg " KEY_250 "k v\r\nmn\r\n", BAD_LINE "mn\n");
	expect("ms " KEY_250 "k 1\r\nx\r\nmn\r\n", BAD_LINE "mn\n");
}

#define HEADER(opcode, key, extras, body) \
	"\x80" opcode "\0" key extras "\0\0\0\0\0\0" body "\0\0\0\7\0\0\0\0\0\0\0\x9"

static void binary_requests_say_their_length(void **state)
{
	static const char set[] = HEADER("\1", "\1", "\x8", "\xb") "\0\0\0\5\0\0\0\x3c"
								   "ahi";
	static const char get[] = HEADER("\0", "\2", "\0", "\2") "ab";
	static const char increment[] =
	    HEADER("\x15", "\1", "\x14", "\x15") "\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
						 "n";
	static const char odd[] =
	    HEADER("\x0a", "\1", "\0", "\1") "x" HEADER("\x7f", "\0", "\0", "\0");
	static const char flush[] = HEADER("\x8", "\0", "\0", "\0")
	    HEADER("\x8", "\0", "\4", "\4") "\0\0\0\5" HEADER("\x8", "\0", "\1", "\1") "\5";

	expect_bytes(set, sizeof(set) - 1,
		     "binary opcode=01 opaque=7 cas=9 exptime=60 flags=5 key=a value=hi\n");
	expect_bytes(get, sizeof(get) - 1, "binary opcode=00 opaque=7 cas=9 exptime=0 key=ab\n");
	expect_bytes(increment, sizeof(increment) - 1,
		     "binary quiet opcode=15 opaque=7 cas=9 exptime=4294967295 key=n\n");
	expect_bytes(odd, sizeof(odd) - 1,
		     "binary opcode=0a opaque=7 cas=9 fault=04\n"
		     "binary opcode=7f opaque=7 cas=9 fault=81\n");
	expect_bytes(flush, sizeof(flush) - 1,
		     "binary opcode=08 opaque=7 cas=9 exptime=0\n"
		     "binary opcode=08 opaque=7 cas=9 exptime=5\n"
		     "binary opcode=08 opaque=7 cas=9 fault=04\n");
	expect_bytes("\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0get", 27,
		     "binary opcode=00 opaque=0 cas=0 fault=04\nclose: \n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_come_one_by_one),
	    cmocka_unit_test(spaces_before_a_command_mean_nothing),
	    cmocka_unit_test(bad_lines_of_keys_are_refused_once),
	    cmocka_unit_test(very_long_lines_are_refused_late),
	    cmocka_unit_test(stores_bring_their_block),
	    cmocka_unit_test(a_refused_store_takes_its_block_along),
	    cmocka_unit_test(values_beyond_the_limit_are_skipped),
	    cmocka_unit_test(other_commands_and_their_errors),
	    cmocka_unit_test(a_line_has_an_end),
	    cmocka_unit_test(meta_commands_keep_the_order_of_flags),
	    cmocka_unit_test(base64_keys_are_decoded),
	    cmocka_unit_test(bad_meta_flags_are_named),
	    cmocka_unit_test(binary_requests_say_their_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
