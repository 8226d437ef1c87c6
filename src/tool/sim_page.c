/* sim_page.c: what the simulated machines did, as lines of the page and as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/text.h"
#include "fabric/names.h"
#include "tool/sim.h"

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static void print_tax(const struct sim_tax *tax, FILE *out)
{
	struct text text;

	fprintf(out, "tax           %s with housekeeping free: %.3f of it is left;",
		text_rate(&text, tax->all_free), share(tax->paid, tax->all_free));
	for (unsigned i = 0; i < SIM_TAX_PURPOSES; i++)
		fprintf(out, "%s %s alone %.3f", i ? "," : "",
			fab_purpose_name(sim_tax_purposes[i]), share(tax->paid, tax->one_free[i]));
	fputc('\n', out);
}

static void print(const void *context, FILE *out)
{
	const struct sim_page *page = context;
	const struct vt_report *r = &page->report;
	struct text text[2];

	fprintf(
	    out,
	    "simulated     profile %s, hash %016" PRIx64 "; run hash %016" PRIx64 "\n"
	    "              %s verbs in %.1f s of this host's processor, %s\n"
	    "memory node   card %.1f %% busy and %.1f %% held up by atomics, atomic unit %.1f %%, "
	    "link in %.1f %%, out %.1f %%\n"
	    "              an atomic waits %.0f ns for others on its word\n"
	    "compute node  card %.1f %%, link in %.1f %%, out %.1f %%, processors %.1f %%\n"
	    "bound by      %s: %s\n",
	    page->profile->name, r->profile_hash, r->run_hash, text_grouped(&text[0], r->verbs),
	    r->host_seconds, text_rate(&text[1], (double)r->verbs / r->host_seconds), 100 * r->card,
	    100 * r->held_up, 100 * r->atomics, 100 * r->link_in, 100 * r->link_out,
	    r->word_wait_ns, 100 * r->cn_card, 100 * r->cn_link_in, 100 * r->cn_link_out,
	    100 * r->cpu, vt_bound_name(r->bound), vt_bound_sentence(r->bound));
	if (page->tax.measured)
		print_tax(&page->tax, out);
}

static json_t *tax_json(const struct sim_tax *tax)
{
	json_t *j = tax->measured ? json_object() : json_null();

	if (!tax->measured || !j)
		return j;
	int failed = json_object_set_new(j, "all", json_real(share(tax->paid, tax->all_free)));

	for (unsigned i = 0; i < SIM_TAX_PURPOSES; i++)
		failed |= json_object_set_new(j, fab_purpose_name(sim_tax_purposes[i]),
					      json_real(share(tax->paid, tax->one_free[i])));
	if (!failed)
		return j;
	json_decref(j);
	return NULL;
}

static json_t *json(const void *context)
{
	const struct sim_page *page = context;
	const struct vt_report *r = &page->report;
	char profile_hash[17], run_hash[17];

	/* 64 bits are more than a JSON number holds in most readers. */
	snprintf(profile_hash, sizeof(profile_hash), "%016" PRIx64, r->profile_hash);
	snprintf(run_hash, sizeof(run_hash), "%016" PRIx64, r->run_hash);
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:s, s:{s:f, s:f, s:f, s:f, s:f, s:f}, "
			 "s:{s:f, s:f, s:f, s:f}, s:o}",
			 "profile", page->profile->name, "profile_hash", profile_hash, "run_hash",
			 run_hash, "verbs", (json_int_t)r->verbs, "events", (json_int_t)r->events,
			 "host_seconds", r->host_seconds, "bound", vt_bound_name(r->bound),
			 "memory_node", "card", r->card, "held_up", r->held_up, "atomic_unit",
			 r->atomics, "link_in", r->link_in, "link_out", r->link_out, "word_wait_ns",
			 r->word_wait_ns, "compute_node", "card", r->cn_card, "link_in",
			 r->cn_link_in, "link_out", r->cn_link_out, "processors", r->cpu,
			 "housekeeping_tax", tax_json(&page->tax));
}

void sim_page_make(struct sim_page *page)
{
	page->aside = (struct bench_aside){
	    .name = "simulation",
	    .context = page,
	    .print = print,
	    .json = json,
	};
}
