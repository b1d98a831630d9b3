// A chart as the page holds it: files by name, and how a link contains them. Knows no document, so that Node tests it.

/** The longest link that browsers and chats carry. */
export const LONGEST = 60_000

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** Returns the files relative to the chart's folder, the one with the outermost Chart.yaml; without what belongs to tools. */
export function below(files) {
  const all = [...files].filter(([name]) => !/(^|\/)(\.git|node_modules)\//.test(name))
  const about = all.map(([name]) => name).filter((name) => /(^|\/)Chart\.yaml$/.test(name))
  if (about.length === 0) throw new Error('this is no chart: Chart.yaml is missing')
  const outermost = about.reduce((a, b) => (b.split('/').length < a.split('/').length ? b : a))
  const folder = outermost.slice(0, -'Chart.yaml'.length)
  return new Map(all.filter(([name]) => name.startsWith(folder)).map(([name, data]) => [name.slice(folder.length), data]))
}

/** Returns a file's text; null if it is not text. */
export function text(data) {
  try {
    return decoder.decode(data)
  } catch {
    return null
  }
}

export const bytes = (content) => encoder.encode(content)

async function through(data, stream) {
  return new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(stream)).arrayBuffer())
}

const toBase64 = (data) => btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join(''))
const fromBase64 = (code) => Uint8Array.from(atob(code), (char) => char.charCodeAt(0))

/** Returns the part of a link after its hash: chart, values and release, compressed. */
export async function pack(files, question) {
  const contents = [...files].map(([name, data]) => [name, text(data) ?? { base64: toBase64(data) }])
  const packed = await through(encoder.encode(JSON.stringify({ version: 1, question, files: contents })), new CompressionStream('deflate-raw'))
  return toBase64(packed).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Returns what a link contains. Its sender is unknown: everything else than texts is refused. */
export async function unpack(code) {
  const packed = fromBase64(code.replaceAll('-', '+').replaceAll('_', '/'))
  const read = JSON.parse(text(await through(packed, new DecompressionStream('deflate-raw'))))
  if (read.version !== 1) throw new Error('this link is of another version of the page')
  const files = read.files.map(([name, content]) => {
    const data = typeof content === 'string' ? encoder.encode(content) : fromBase64(String(content.base64))
    return [String(name), data]
  })
  const asked = read.question
  const question = {
    values: String(asked.values), release: String(asked.release), namespace: String(asked.namespace),
    kubeVersion: String(asked.kubeVersion), isUpgrade: asked.isUpgrade === true,
  }
  return { files: new Map(files), question }
}
