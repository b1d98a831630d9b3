// The page: what is given, what is shown, and when to render.

import { LONGEST, below, bytes, pack, text, unpack } from './chart.js'

const EXAMPLE = {
  'Chart.yaml': 'apiVersion: v2\nname: web\nversion: 0.1.0\n',
  'values.yaml': '# How many pods.\nreplicas: 1\nimage:\n  name: nginx\n  tag: "1.27"\n',
  'templates/deployment.yaml': `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: &labels {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: *labels
    spec:
      containers:
      - name: web
        image: {{ printf "%s:%s" .Values.image.name .Values.image.tag | quote }}
`,
}

/** How long a chart may take before it is given up, in milliseconds. */
const PATIENCE = 15_000

const at = (id) => document.getElementById(id)
const make = (tag, content = '', name = '') => Object.assign(document.createElement(tag), { textContent: content, className: name })

let files = new Map(Object.entries(EXAMPLE).map(([name, content]) => [name, bytes(content)]))
let worker, asked = 0, latest = 0, changed = true, timer, patience
const waiting = new Map()

function start() {
  worker = new Worker('worker.js', { type: 'module' })
  worker.onmessage = ({ data }) => { waiting.get(data.id)?.(data); waiting.delete(data.id) }
  changed = true
}

function restart() {
  worker.terminate()
  waiting.clear()
  start()
}

function ask(message) {
  const id = ++asked
  return new Promise((resolve) => { waiting.set(id, resolve); worker.postMessage({ id, ...message }) })
}

const question = () => ({
  values: at('values').value, release: at('release').value, namespace: at('namespace').value,
  kubeVersion: at('kube').value.trim(), isUpgrade: at('upgrade').checked,
})

async function render() {
  clearTimeout(patience)
  patience = setTimeout(() => {
    restart()
    fail('the chart took too long, and was given up')
  }, PATIENCE)
  const reply = ask({ files: changed ? [...files] : undefined, question: question() })
  changed = false
  const wanted = latest = asked
  const shown = await reply
  if (wanted !== latest) return
  clearTimeout(patience)
  if (shown.isFatal) restart()
  show(shown)
}

function soon() {
  clearTimeout(timer)
  timer = setTimeout(render, 150)
}

const fail = (message) => show({ answer: { error: { text: message, places: [] } } })

function show({ answer, name, took }) {
  const { error, objects = [], values = [], unread = [], notes = '', warnings = [] } = answer
  const count = `${objects.length} ${objects.length === 1 ? 'object' : 'objects'}`
  at('state').textContent = error ? `${name ?? 'The chart'} does not render.` : `${name}: ${count}, in ${took.toFixed(0)} ms`
  at('error').hidden = !error
  at('error').querySelector('pre').textContent = error?.text ?? ''
  at('error').querySelector('ul').replaceChildren(...(error?.places ?? []).map(place))
  const typos = unread.map(({ path, nearest }) => make('li', `no template reads ${path}${nearest ? `; did you mean ${nearest}?` : ''}`))
  at('unread').replaceChildren(...typos, ...warnings.map((warning) => make('li', warning)))
  if (!error) at('objects').replaceChildren(...objects.flatMap(object))
  at('origins').replaceChildren(...values.map(row))
  at('notes').textContent = notes
}

function place({ template, line, column }) {
  const item = make('li')
  const button = make('button', `${template}:${line}${column == null ? '' : `:${column}`}`)
  button.onclick = () => jump(template, line)
  item.append(button)
  return item
}

/** Shows a template, by its name in the result, and selects a line of it. */
function jump(template, line = 1) {
  const name = template.slice(template.indexOf('/') + 1)
  if (!files.has(name)) return
  at('file').value = name
  showFile()
  const area = at('content'), lines = area.value.split('\n')
  const from = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0)
  area.focus()
  area.setSelectionRange(from, from + (lines[line - 1] ?? '').length)
}

function object({ source, kind, name, text: manifest, isHook }) {
  const head = make('h3', `${kind} ${name}${isHook ? ' (hook) ' : ' '}`)
  const button = make('button', source)
  button.onclick = () => jump(source)
  head.append(button)
  return [head, make('pre', manifest)]
}

const brief = (value) => JSON.stringify(value)

function row({ path, value, origin, isGiven, isRemoved, replaced }) {
  const line = make('tr', '', isRemoved ? 'removed' : '')
  const before = replaced.map((one) => `${brief(one.value)} (${one.origin})`).join(', ')
  line.append(make('td', path), make('td', brief(value)), make('td', origin, isGiven ? 'given' : ''), make('td', before))
  return line
}

function showFile() {
  const content = text(files.get(at('file').value) ?? new Uint8Array())
  at('content').value = content ?? ''
  at('content').disabled = content === null
}

function use(given) {
  files = given
  changed = true
  const names = [...files.keys()].sort()
  at('file').replaceChildren(...names.map((name) => make('option', name)))
  at('file').value = names.find((name) => name.startsWith('templates/')) ?? names[0]
  showFile()
  soon()
}

async function open(load) {
  try {
    use(below(await load()))
  } catch (error) {
    fail(error.message)
  }
}

const data = async (file) => new Uint8Array(await file.arrayBuffer())

async function filesOf(message) {
  const reply = await ask(message)
  if (!reply.files) throw new Error(reply.answer.error.text)
  return new Map(reply.files)
}

const archive = (file) => open(async () => filesOf({ archive: await data(file) }))

/** Opens a folder as Helm does: without what its .helmignore excludes. */
const folder = (load) => open(async () => filesOf({ folder: [...below(await load())] }))

/** Reads what was dropped, folders and all. */
async function entries(entry, found = []) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject))
    found.push([entry.fullPath.slice(1), await data(file)])
    return found
  }
  const reader = entry.createReader()
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject))
    if (some.length === 0) return found
    for (const one of some) await entries(one, found)
  }
}

function listen() {
  const drop = at('drop')
  document.ondragover = (event) => { event.preventDefault(); drop.classList.add('over') }
  document.ondragleave = () => drop.classList.remove('over')
  document.ondrop = (event) => {
    event.preventDefault()
    drop.classList.remove('over')
    const [item] = event.dataTransfer.items
    const entry = item?.webkitGetAsEntry()
    if (entry?.isDirectory) folder(async () => new Map(await entries(entry)))
    else if (item) archive(item.getAsFile())
  }
  at('archive').onchange = ({ target }) => archive(target.files[0])
  at('folder').onchange = ({ target }) => folder(async () =>
    new Map(await Promise.all([...target.files].map(async (file) => [file.webkitRelativePath, await data(file)]))))
  for (const id of ['values', 'release', 'namespace', 'kube', 'upgrade']) at(id).oninput = soon
  at('file').onchange = showFile
  at('content').oninput = () => {
    files.set(at('file').value, bytes(at('content').value))
    changed = true
    soon()
  }
  at('share').onclick = share
  addEventListener('hashchange', opened)
}

async function share() {
  const code = await pack(files, question())
  if (code.length > LONGEST) return fail(`the chart is too large for a link: ${code.length} characters, at most ${LONGEST}`)
  history.replaceState(null, '', `#${code}`)
  await navigator.clipboard?.writeText(location.href).catch(() => {})
  at('state').textContent = 'The link is in the address bar, and copied.'
}

async function opened() {
  if (location.hash.length < 2) return use(files)
  try {
    const { files: given, question: asked } = await unpack(location.hash.slice(1))
    at('values').value = asked.values
    at('release').value = asked.release
    at('namespace').value = asked.namespace
    at('kube').value = asked.kubeVersion
    at('upgrade').checked = asked.isUpgrade
    use(given)
  } catch (error) {
    use(files)
    fail(`the link cannot be read: ${error.message}`)
  }
}

start()
listen()
opened()
