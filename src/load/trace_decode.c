/* trace_decode.c: plain, zstd, xz and gzip. */
#include "load/trace_decode.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/status.h"

#define XZ_MEMORY_MAX (UINT64_C(256) << 20)

int trace_source_fill(struct trace_source *s, struct load_error *error)
{
	ssize_t n;

	if (s->at < s->end || s->ended)
		return 0;
	do {
		n = read(s->fd, s->bytes, sizeof(s->bytes));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return load_error_set(error, FORGE_E_SYSTEM, "%s: %s", s->path, strerror(errno));
	s->at = 0;
	s->end = (size_t)n;
	s->ended = n == 0;
	return 0;
}

static int cut(const struct trace_source *s, const char *kind, struct load_error *error)
{
	return load_error_set(error, FORGE_E_TRUNCATED,
			      "%s: the %s data ends too early; the file is cut, copy it again",
			      s->path, kind);
}

static int damaged(const struct trace_source *s, const char *kind, const char *why,
		   struct load_error *error)
{
	return load_error_set(error, FORGE_E_FORMAT,
			      "%s: the %s data is damaged (%s); copy the file again", s->path, kind,
			      why);
}

static int plain_init(struct trace_decode_state *d)
{
	(void)d;
	return 0;
}

static void plain_end(struct trace_decode_state *d)
{
	(void)d;
}

static int plain_run(struct trace_decode_state *d, struct trace_source *s, unsigned char *out,
		     size_t room, size_t *produced, struct load_error *error)
{
	int status = trace_source_fill(s, error);
	size_t n;

	(void)d;
	if (status != 0)
		return status;
	n = min_u64(room, s->end - s->at);
	memcpy(out, s->bytes + s->at, n);
	s->at += n;
	*produced = n;
	return 0;
}

static int zstd_init(struct trace_decode_state *d)
{
	d->zstd = ZSTD_createDStream();
	return d->zstd == NULL ? FORGE_E_NO_MEMORY : 0;
}

static void zstd_end(struct trace_decode_state *d)
{
	ZSTD_freeDStream(d->zstd);
}

static int zstd_run(struct trace_decode_state *d, struct trace_source *s, unsigned char *out,
		    size_t room, size_t *produced, struct load_error *error)
{
	ZSTD_outBuffer o = {out, room, 0};

	while (o.pos == 0) {
		int status = trace_source_fill(s, error);
		ZSTD_inBuffer i = {s->bytes, s->end, s->at};
		size_t result;

		if (status != 0)
			return status;
		if (s->ended && !d->inside)
			break;
		result = ZSTD_decompressStream(d->zstd, &o, &i);
		if (ZSTD_isError(result))
			return damaged(s, "zstd", ZSTD_getErrorName(result), error);
		s->at = i.pos;
		d->inside = result != 0;
		if (s->ended && d->inside && o.pos == 0)
			return cut(s, "zstd", error);
	}
	*produced = o.pos;
	return 0;
}

static int xz_init(struct trace_decode_state *d)
{
	d->xz = (lzma_stream)LZMA_STREAM_INIT;
	return lzma_stream_decoder(&d->xz, XZ_MEMORY_MAX, LZMA_CONCATENATED) == LZMA_OK
		   ? 0
		   : FORGE_E_NO_MEMORY;
}

static void xz_end(struct trace_decode_state *d)
{
	lzma_end(&d->xz);
}

static const char *xz_reason(lzma_ret result)
{
	switch (result) {
	case LZMA_MEMLIMIT_ERROR:
		return "it needs more than 256 MiB to unpack; pack it with a lower level";
	case LZMA_MEM_ERROR:
		return "out of memory";
	case LZMA_OPTIONS_ERROR:
		return "it uses unsupported options";
	case LZMA_FORMAT_ERROR:
		return "something other than xz follows";
	default:
		return "a checksum or a code is wrong";
	}
}

static int xz_run(struct trace_decode_state *d, struct trace_source *s, unsigned char *out,
		  size_t room, size_t *produced, struct load_error *error)
{
	d->xz.next_out = out;
	d->xz.avail_out = room;
	while (d->xz.avail_out == room && !d->flushed) {
		int status = trace_source_fill(s, error);
		lzma_ret result;

		if (status != 0)
			return status;
		d->xz.next_in = s->bytes + s->at;
		d->xz.avail_in = s->end - s->at;
		result = lzma_code(&d->xz, s->ended ? LZMA_FINISH : LZMA_RUN);
		s->at = s->end - d->xz.avail_in;
		if (result == LZMA_STREAM_END)
			d->flushed = true;
		else if (result == LZMA_BUF_ERROR && s->ended)
			return cut(s, "xz", error);
		else if (result != LZMA_OK && result != LZMA_BUF_ERROR)
			return damaged(s, "xz", xz_reason(result), error);
	}
	*produced = room - d->xz.avail_out;
	return 0;
}

static int gzip_init(struct trace_decode_state *d)
{
	d->gzip = (z_stream){0};
	d->inside = true;
	return inflateInit2(&d->gzip, 15 + 16) == Z_OK ? 0 : FORGE_E_NO_MEMORY;
}

static void gzip_end(struct trace_decode_state *d)
{
	inflateEnd(&d->gzip);
}

/* Between members: another one, zero padding (as tapes leave it), or the end. */
static int gzip_between(struct trace_decode_state *d, struct trace_source *s,
			struct load_error *error)
{
	if (s->bytes[s->at] == 0) {
		s->at++;
		return 0;
	}
	if (s->bytes[s->at] != 0x1f)
		return damaged(s, "gzip", "something other than gzip follows", error);
	inflateReset(&d->gzip);
	d->inside = true;
	return 0;
}

static int gzip_run(struct trace_decode_state *d, struct trace_source *s, unsigned char *out,
		    size_t room, size_t *produced, struct load_error *error)
{
	d->gzip.next_out = out;
	d->gzip.avail_out = (uInt)room;
	while (d->gzip.avail_out == room) {
		int status = trace_source_fill(s, error);
		int result;

		if (status != 0)
			return status;
		if (!d->inside) {
			if (s->ended)
				break;
			status = gzip_between(d, s, error);
			if (status != 0)
				return status;
			continue;
		}
		d->gzip.next_in = s->bytes + s->at;
		d->gzip.avail_in = (uInt)(s->end - s->at);
		result = inflate(&d->gzip, Z_NO_FLUSH);
		s->at = s->end - d->gzip.avail_in;
		if (result == Z_STREAM_END)
			d->inside = false;
		else if (result == Z_BUF_ERROR && s->ended && d->gzip.avail_out == room)
			return cut(s, "gzip", error);
		else if (result != Z_OK && result != Z_BUF_ERROR)
			return damaged(s, "gzip", d->gzip.msg == NULL ? "" : d->gzip.msg, error);
	}
	*produced = room - d->gzip.avail_out;
	return 0;
}

const struct trace_decoder trace_decoder_plain = {"", plain_init, plain_end, plain_run};

static const struct trace_decoder decoder_zstd = {"zstd", zstd_init, zstd_end, zstd_run};
static const struct trace_decoder decoder_xz = {"xz", xz_init, xz_end, xz_run};
static const struct trace_decoder decoder_gzip = {"gzip", gzip_init, gzip_end, gzip_run};

const struct trace_decoder *trace_decoder_for(const unsigned char *bytes, size_t count)
{
	if (count >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0)
		return &decoder_zstd;
	if (count >= 6 && memcmp(bytes,
				 "\xfd"
				 "7zXZ\0",
				 6) == 0)
		return &decoder_xz;
	if (count >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0)
		return &decoder_gzip;
	return &trace_decoder_plain;
}
