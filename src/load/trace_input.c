/* trace_input.c: a sliding buffer of decompressed bytes. */
#include "load/trace_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "load/trace_decode.h"

/* Room for a longest piece behind the rest of the one before it. */
#define WINDOW_BYTES (2 * TRACE_INPUT_PEEK_MAX)

struct trace_input {
	struct trace_source source;
	bool as_it_is;
	int64_t plain_bytes;
	const struct trace_decoder *decoder;
	struct trace_decode_state state;
	size_t at;
	size_t end;
	bool ended;
	unsigned char window[WINDOW_BYTES];
};

/* Look at the first bytes and begin to decode; the source stands at its beginning. */
static int begin(struct trace_input *in, struct load_error *error)
{
	int status;

	in->source.at = 0;
	in->source.end = 0;
	in->source.ended = false;
	in->at = 0;
	in->end = 0;
	in->ended = false;
	in->state = (struct trace_decode_state){0};
	in->decoder = NULL;
	status = trace_source_fill(&in->source, error);
	if (status != 0)
		return status;
	in->decoder = in->as_it_is ? &trace_decoder_plain
				   : trace_decoder_for(in->source.bytes, in->source.end);
	status = in->decoder->init(&in->state);
	if (status != 0) {
		load_error_set(error, status, "%s: out of memory", in->source.path);
		in->decoder = NULL;
	}
	return status;
}

int trace_input_open(struct trace_input **out, const char *path, bool as_it_is,
		     struct load_error *error)
{
	struct trace_input *in = calloc(1, sizeof(*in));
	struct stat st;
	int status;

	if (in == NULL)
		return load_error_set(error, FORGE_E_NO_MEMORY, "%s: out of memory", path);
	in->source.path = path;
	in->as_it_is = as_it_is;
	in->plain_bytes = -1;
	in->source.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (in->source.fd < 0 || fstat(in->source.fd, &st) != 0) {
		status = load_error_set(error, FORGE_E_SYSTEM, "%s: %s; name a readable trace file",
					path, strerror(errno));
		goto out;
	}
	if (S_ISDIR(st.st_mode)) {
		status = load_error_set(error, FORGE_E_SYSTEM,
					"%s: it is a directory; name a trace file", path);
		goto out;
	}
	status = begin(in, error);
	if (status != 0)
		goto out;
	if (S_ISREG(st.st_mode) && in->decoder == &trace_decoder_plain)
		in->plain_bytes = st.st_size;
	*out = in;
	return 0;
out:
	trace_input_close(in);
	return status;
}

void trace_input_close(struct trace_input *in)
{
	if (in == NULL)
		return;
	if (in->decoder != NULL)
		in->decoder->end(&in->state);
	if (in->source.fd >= 0)
		close(in->source.fd);
	free(in);
}

int trace_input_rewind(struct trace_input *in, struct load_error *error)
{
	if (lseek(in->source.fd, 0, SEEK_SET) != 0)
		return load_error_set(error, FORGE_E_SYSTEM,
				      "%s: %s; a trace that is read twice must be a file",
				      in->source.path, strerror(errno));
	if (in->decoder != NULL)
		in->decoder->end(&in->state);
	return begin(in, error);
}

int trace_input_peek(struct trace_input *in, size_t wanted, unsigned char **bytes, size_t *count,
		     struct load_error *error)
{
	if (in->decoder == NULL)
		return load_error_set(error, FORGE_E_SYSTEM,
				      "%s: the file could not be opened again", in->source.path);
	if (in->end - in->at < wanted && in->at > WINDOW_BYTES - wanted) {
		memmove(in->window, in->window + in->at, in->end - in->at);
		in->end -= in->at;
		in->at = 0;
	}
	while (in->end - in->at < wanted && !in->ended) {
		size_t produced = 0;
		int status = in->decoder->run(&in->state, &in->source, in->window + in->end,
					      WINDOW_BYTES - in->end, &produced, error);

		if (status != 0)
			return status;
		in->end += produced;
		in->ended = produced == 0;
	}
	*bytes = in->window + in->at;
	*count = in->end - in->at;
	return 0;
}

void trace_input_take(struct trace_input *in, size_t count)
{
	in->at += count;
}

int64_t trace_input_plain_bytes(const struct trace_input *in)
{
	return in->plain_bytes;
}

const char *trace_input_compression(const struct trace_input *in)
{
	return in->decoder == NULL ? "" : in->decoder->name;
}
