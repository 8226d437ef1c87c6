/* load_error.c: formats the sentence of a load_error. */
#include "load/load_error.h"

#include <stdarg.h>
#include <stdio.h>

int load_error_set(struct load_error *error, int status, const char *format, ...)
{
	va_list arguments;

	if (error == NULL)
		return status;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	/* A file name or a field may carry anything; the sentence stays one printable line. */
	for (char *c = error->text; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	return status;
}
