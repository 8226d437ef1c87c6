// Clients for Node.js against a server: stock_clients.js memcached|memjs PORT.
//
// The first speaks the text protocol, the second the binary one.  Exits 77 when the client is not
// installed where Node.js looks, which the environment variable NODE_PATH can extend.  Run by
// serve_protocol.py.
'use strict';
const assert = require('assert');

const port = process.argv[3];
const large = 'x'.repeat(900000);
const bytes = Buffer.from([0, 13, 10, 255]);
const many = Array.from({ length: 300 }, (_, i) => `k${i}`);
const valueOf = (key) => key.repeat(Number(key.slice(1)) + 1);

async function memcached(Memcached) {
	const c = new Memcached(`127.0.0.1:${port}`, { retries: 0, timeout: 60000 });
	const call = (verb, ...words) => new Promise((done, failed) =>
		c[verb](...words, (error, value) => error ? failed(error) : done(value)));
	const is = async (expected, ...words) => assert.deepStrictEqual(await call(...words), expected);
	const fails = (words, ...all) => assert.rejects(call(...all), words);

	await is(true, 'set', 'a', '1', 0);
	await is('1', 'get', 'a');
	await is(undefined, 'get', 'nope');
	await is(true, 'set', 'object', { deep: [1, 2] }, 0);
	await is(true, 'set', 'bytes', bytes, 0);
	await is(bytes, 'get', 'bytes');
	await is(true, 'set', 'n', 41, 0);
	await is(true, 'set', 'empty', '', 0);
	await is('', 'get', 'empty');
	await is({ a: '1', object: { deep: [1, 2] }, n: 41 }, 'getMulti', ['a', 'object', 'n', 'nope']);

	await fails(/not stored/, 'add', 'a', 'x', 0);
	await fails(/not stored/, 'replace', 'nope', 'x', 0);
	await fails(/not stored/, 'append', 'nope', 'x');
	await is(true, 'add', 'new', 'x', 0);
	await is(true, 'replace', 'new', 'y', 0);
	await is(true, 'append', 'new', 'z');
	await is(true, 'prepend', 'new', 'x');
	const seen = await call('gets', 'new');
	assert.strictEqual(seen.new, 'xyz');
	await is(true, 'cas', 'new', '1', seen.cas, 0);
	await is(false, 'cas', 'new', '2', seen.cas, 0);
	await is(10, 'incr', 'new', 9);
	await is(0, 'decr', 'new', 100);
	await is(false, 'incr', 'nope', 1);
	await fails(/non-numeric/, 'incr', 'object', 1);
	await Promise.all(many.map(() => call('incr', 'new', 1)));
	await is('300', 'get', 'new');

	await is(true, 'touch', 'a', 100);
	await is(false, 'touch', 'nope', 100);
	await is(true, 'set', 'brief', 'x', 100);
	await is(true, 'touch', 'brief', -1);
	await is(undefined, 'get', 'brief');
	await is(true, 'del', 'a');
	await is(false, 'del', 'a');

	await is(true, 'set', 'large', large, 0);
	await is(large, 'get', 'large');
	await fails(/length of the value/, 'set', 'larger', large + large, 0);
	await Promise.all(many.map((key) => call('set', key, valueOf(key), 0)));
	await is(Object.fromEntries(many.map((key) => [key, valueOf(key)])), 'getMulti', many);

	const [stats] = await call('stats');
	assert(stats.cmd_set > 300 && stats.pid > 0, JSON.stringify(stats));
	const [settings] = await call('settings');
	assert.strictEqual(settings.policy, 'forge');
	const [version] = await call('version');
	assert.match(version.version, /^\d+\.\d+\.\d+$/);
	await is([true], 'flush');
	await is(undefined, 'get', 'large');
	c.end();
}

async function memjs({ Client }) {
	const silent = { log() {} }; // it logs what it also returns
	const c = Client.create(`127.0.0.1:${port}`, { retries: 0, timeout: 60, logger: silent });
	const get = async (key) => {
		const { value } = await c.get(key);
		return value && value.toString();
	};
	const is = async (expected, promise) => assert.deepStrictEqual(await promise, expected);
	const number = async (promise) => Number((await promise).value);
	const ask = (verb, ...words) => new Promise((done, failed) =>
		c[verb](...words, (error, server, value) => error ? failed(error) : done(value)));

	await is(true, c.set('a', '1', { expires: 100 }));
	await is('1', get('a'));
	await is(null, get('nope'));
	await is(true, c.set('bytes', bytes, {}));
	assert((await c.get('bytes')).value.equals(bytes));
	await is(true, c.set('empty', '', {}));

	await is(false, c.add('a', 'x', {}));
	await is(true, c.add('new', 'x', {}));
	await is(false, c.replace('nope', 'x', {}));
	await is(true, c.replace('new', 'y', {}));
	await is(true, c.append('new', 'z'));
	await is('yz', get('new'));
	await assert.rejects(c.append('nope', 'z'), /not stored/i);
	await assert.rejects(c.increment('new', 1, {}), /non-numeric/i);
	await is(true, c.touch('new', 100));
	await is(false, c.touch('nope', 100));
	await is(10, number(c.increment('n', 5, { initial: 10 })));
	await is(15, number(c.increment('n', 5, { initial: 10 })));
	await is(0, number(c.decrement('n', 100, {})));
	await Promise.all(many.map(() => c.increment('n', 1, {})));
	await is(300, number(c.increment('n', 0, {})));
	await is(true, c.delete('a'));
	await is(false, c.delete('a'));

	await is(true, c.set('large', large, {}));
	await is(large, get('large'));
	await assert.rejects(c.set('larger', large + large, {}), /too large/i);
	await is(large, get('large')); // the connection is still in step
	await is(many.map(() => true), Promise.all(many.map((key) => c.set(key, valueOf(key), {}))));
	await is(many.map(valueOf), Promise.all(many.map(get)));

	assert((await ask('stats')).cmd_set > 300);
	assert.strictEqual((await ask('statsWithKey', 'settings')).policy, 'forge');
	await c.flush();
	await is(null, get('large'));
	c.close();
}

let client;
try {
	client = require(process.argv[2]);
} catch (error) {
	if (error.code !== 'MODULE_NOT_FOUND')
		throw error;
	process.exit(77);
}
process.exitCode = 1; // also if nothing is left to wait for before the end is reached
({ memcached, memjs })[process.argv[2]](client).then(() => {
	process.exitCode = 0;
}, (error) => {
	console.error(error);
	process.exit(1);
});
