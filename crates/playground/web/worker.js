// Renders beside the page, which stays responsive, and ends this worker if a chart takes too long or exhausts it.

import init, { Files, Playground, replay, unpack } from './playground.js'

const ready = init()
let chart = null
let broken = new Error('there is no chart')

function collect(files) {
  const all = new Files()
  for (const [name, data] of files) all.add(name, data)
  return all
}

function open(files) {
  chart?.free()
  chart = null
  try {
    chart = new Playground(collect(files))
  } catch (error) {
    broken = error
    throw error
  }
}

function answer({ archive, folder, files, question, record }) {
  if (record) return { printed: replay(record) } // Only tests ask for this.
  if (archive) return { files: unpack(archive) }
  if (folder) return { files: collect(folder).kept() }
  if (files) open(files)
  if (!chart) throw broken
  const began = performance.now()
  const rendered = JSON.parse(chart.render(JSON.stringify(question)))
  return { answer: rendered, name: chart.name, took: performance.now() - began }
}

onmessage = async ({ data }) => {
  try {
    await ready
    postMessage({ id: data.id, ...answer(data) })
  } catch (error) {
    // After these, the module is not to be used again.
    const isFatal = error instanceof RangeError || error instanceof WebAssembly.RuntimeError
    const text = isFatal ? `the chart is too deep for a browser: ${error.message}` : String(error.message ?? error)
    postMessage({ id: data.id, isFatal, answer: { error: { text, places: [] } } })
  }
}
