// Tests the module that browsers load, and what the page does without a document: `make playground`.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'

const [built, repository] = [process.env.PLAYGROUND, process.env.REPOSITORY]
const binary = readFileSync(join(built, 'playground_bg.wasm'))

/** Returns the module, fresh: one that ran out of stack is not to be used again. */
async function load(name) {
  const fresh = await import(`${pathToFileURL(join(built, 'playground.js'))}?${name}`)
  fresh.initSync({ module: binary })
  return fresh
}

const module = await load('all')
const { below, bytes, pack, text, unpack } = await import(pathToFileURL(join(built, 'chart.js')))

const own = join(repository, 'crates/conformance/own')
const lines = (file) => readFileSync(file, 'utf8').trim().split('\n').map((line) => [line, JSON.parse(line)])

function collect(files, { Files } = module) {
  const all = new Files()
  for (const [name, data] of files) all.add(name, data)
  return all
}

const open = (files, from = module) => new from.Playground(collect(files, from))

function folder(root, at = root) {
  return readdirSync(at).flatMap((name) => {
    const path = join(at, name)
    return statSync(path).isDirectory() ? folder(root, path) : [[relative(root, path), readFileSync(path)]]
  })
}

const ask = (chart, question = {}) => JSON.parse(chart.render(JSON.stringify({ release: 'rel', namespace: 'ns', ...question })))
const small = (template, values = '', from = module) => open(Object.entries({
  'Chart.yaml': 'apiVersion: v2\nname: c\nversion: 1.0.0\n', 'values.yaml': values, 'templates/t.yaml': template,
}).map(([name, content]) => [name, bytes(content)]), from)

test('every own vector prints what Helm printed', () => {
  let count = 0
  for (const [line, vector] of lines(join(own, 'vectors.jsonl'))) {
    let printed
    try {
      printed = { out: module.replay(line) }
    } catch (error) {
      printed = { error: error.message }
    }
    assert.deepEqual(printed, vector.error ? { error: vector.error } : { out: vector.out }, vector.id)
    count += 1
  }
  assert.ok(count > 300, `${count} vectors`)
})

test('own charts print what helm template printed, or fail as it did', () => {
  let count = 0
  for (const [, { dir, values, args, expected, status }] of lines(join(own, 'cases.jsonl'))) {
    const [flag, kubeVersion = '', ...more] = args
    // The page has fields for values and for the version of Kubernetes, and for no other flag of the cases.
    if (more.length > 0 || (flag && flag !== '--kube-version')) continue
    const given = values ? readFileSync(join(own, values), 'utf8') : ''
    const answer = ask(open(collect(folder(join(own, dir))).kept()), { values: given, kubeVersion })
    // Some messages of Helm end with a line break, after which it prints no second one.
    const printed = status === 'ok' ? answer.text : `Error: ${answer.error?.text.trimEnd()}\n`
    assert.equal(printed, readFileSync(join(own, expected), 'utf8'), expected)
    count += 1
  }
  assert.ok(count > 5, `${count} charts`)
})

test('random values, keys and the time come from JavaScript', () => {
  const chart = small('a: {{ randAlphaNum 8 }}\nb: {{ now | date "2006" | quote }}\nc: {{ genPrivateKey "ed25519" | b64enc }}\nd: {{ uuidv4 }}\n')
  const [one, two] = [ask(chart), ask(chart)]
  assert.equal(one.error, undefined)
  assert.notEqual(one.text, two.text)
  assert.match(one.text, new RegExp(`b: "${new Date().getFullYear()}"`))
})

test('hostile templates are errors, and the module still works', () => {
  const again = '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}'
  for (const template of [again, '{{ range until 1000000000 }}{{ . }}{{ end }}', '{{ repeat 2000000000 "a" }}']) {
    assert.ok(ask(small(template)).error, template)
  }
  assert.match(ask(small('kind: A\nsize: {{ .Values.size }}\n', 'size: 2\n')).text, /size: 2/)
})

test('what is nested too deeply fails alone', async () => {
  for (const [name, template] of [['templates', '{{ define "b" }}{{ template "b" . }}{{ end }}{{ template "b" . }}'], ['parentheses', `{{ ${'('.repeat(50000)}1${')'.repeat(50000)} }}`], ['blocks', `${'{{ if 1 }}'.repeat(50000)}${'{{ end }}'.repeat(50000)}`], ['lists', '['.repeat(50000)]]) {
    const fresh = await load(name)
    try {
      assert.ok(ask(small(template, '', fresh)).error, name)
    } catch (error) {
      assert.ok(error instanceof RangeError || error instanceof WebAssembly.RuntimeError, `${name}: ${error}`)
    }
  }
})

test('a template error has its place, and values their origin', () => {
  const answer = ask(small('kind: A\nb: {{ required "say b" .Values.b }}\n', 'a: 1\n'), { values: 'a: 2\nc: 3\n' })
  assert.deepEqual(answer.error.places[0].template, 'c/templates/t.yaml')
  assert.equal(answer.error.places[0].line, 2)
  assert.deepEqual(answer.values[0].replaced, [{ origin: 'c/values.yaml:1', value: 1 }])
})

test('an archive prints what its folder does, and anything else is an error', () => {
  const charts = join(own, 'charts')
  const files = collect(folder(join(charts, 'shop'))).kept()
  const unpacked = module.unpack(execFileSync('tar', ['-czf', '-', '-C', charts, ...files.map(([name]) => `shop/${name}`)]))
  assert.deepEqual(new Map(unpacked), new Map(files))
  assert.equal(ask(open(unpacked)).text, readFileSync(join(own, 'expected/shop-default.yaml'), 'utf8'))
  assert.throws(() => module.unpack(bytes('nothing')))
  assert.throws(() => module.unpack(gzipSync(bytes('nothing'))))
})

test('a link brings back chart and question', async () => {
  const files = new Map([['Chart.yaml', bytes('name: ü\n')], ['files/raw', new Uint8Array([0, 255, 128])]])
  const question = { values: 'a: 1\n', release: 'rel', namespace: 'ns', kubeVersion: '', isUpgrade: true }
  const code = await pack(files, question)
  assert.match(code, /^[A-Za-z0-9_-]+$/)
  assert.deepEqual(await unpack(code), { files, question })
  await assert.rejects(unpack('x'))
  await assert.rejects(unpack(code.slice(0, -9)))
})

test('a chart is found in what was dropped', () => {
  const dropped = new Map(['a/b/Chart.yaml', 'a/b/charts/c/Chart.yaml', 'a/b/values.yaml', 'a/b/.git/config', 'a/other'].map((name) => [name, bytes('')]))
  assert.deepEqual([...below(dropped).keys()], ['Chart.yaml', 'charts/c/Chart.yaml', 'values.yaml'])
  assert.throws(() => below(new Map([['a/values.yaml', bytes('')]])), /Chart.yaml is missing/)
  assert.equal(text(new Uint8Array([255])), null)
})

test('the page is below 3 MB, compressed', () => {
  const size = readdirSync(built).reduce((sum, name) => sum + gzipSync(readFileSync(join(built, name)), { level: 9 }).length, 0)
  console.log(`the page: ${(size / 1e6).toFixed(2)} MB compressed, the module ${(binary.length / 1e6).toFixed(2)} MB`)
  assert.ok(size < 3e6, `${size} bytes`)
})
