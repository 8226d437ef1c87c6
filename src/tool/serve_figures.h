/*
 * serve_figures.h: what the pools of a server hold, for its statistics.
 *
 * A server tells the figures of its memory nodes together, to `stats` and to who scrapes them.
 */
#ifndef FORGE_TOOL_SERVE_FIGURES_H
#define FORGE_TOOL_SERVE_FIGURES_H

#include "client/client.h"
#include "client/view.h"
#include "serve/server.h"

/*
 * The sum over the memory nodes that are up, READ by a view of the client's.  Waits; on the view's
 * thread.  0; FORGE_E_NODE when none is up, or what survey_take() says.
 */
int serve_figures(struct client *, struct view *, struct server_figures *out);

#endif
