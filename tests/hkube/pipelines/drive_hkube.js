// Runs pipelines by HKube's own packages, as its pipeline driver does, with algorithms that answer at once.
//
// Each line of standard input is {pipeline, flowInput, results, failures}, where results has the answers of a
// node's tasks by their batch indices, and failures the indices of those that fail. Each line of
// standard output is {tasks, results, error}.
//
// What the driver does around the packages: kube-HPC/hkube at 261d3d06,
// core/pipeline-driver/lib/tasks/task-runner.js.

const readline = require('readline');
const objectPath = require('object-path');
const { NodesMap, NodeTypes } = require('@hkube/dag');
const { parser } = require('@hkube/parsers');

const COMPLETE = ['succeed', 'failed', 'skipped'];

class Driver {
    constructor({ pipeline, flowInput, results, failures }) {
        this.pipeline = pipeline;
        this.answers = results;
        this.failures = failures;
        this.stored = { flowInput };
        this.flowInput = flowInput && {
            metadata: parser.replaceFlowInput({ ...pipeline, flowInput }),
            storageInfo: { path: 'flowInput' }
        };
        this.ready = [];
        this.tasks = [];
        this.error = null;
        this.hasRun = new Set();
        this.nodes = new NodesMap({ ...pipeline, flowInput }, { checkFlowInput: true });
        this.nodes.on('node-ready', ({ nodeName, parentOutput, index }) => this.runNode(nodeName, parentOutput, index));
    }

    run() {
        this.nodes.getSources().forEach(name => this.runNode(name));
        while (this.ready.length && this.error === null) {
            this.end(this.ready.shift());
        }
        const isDone = this.nodes._getNodesAsFlat().every(node => COMPLETE.includes(node.status));
        if (!isDone && this.error === null) {
            this.error = 'hangs';
        }
        const results = this.nodes.pipelineResults().map(entry => ({
            ...entry, result: entry.result && this.read(entry.result.storageInfo.path)
        }));
        return { tasks: this.tasks, results: this.error === null ? results : null, error: this.error };
    }

    runNode(name, parentOutput, index) {
        try {
            const node = this.nodes.getNode(name);
            if (node.status !== 'creating' || (!index && this.hasRun.has(name))) {
                return;
            }
            this.hasRun.add(name);
            const { batch, input, storage } = parser.parse({
                flowInputMetadata: this.flowInput,
                nodeInput: node.input,
                parentOutput,
                batchOperation: node.batchOperation,
                index
            });
            if ((batch && input.length === 0) || index === -1) {
                this.skip(node);
            }
            else if (batch) {
                const { taskId, ...shared } = node;
                const items = input.map((item, at) => new NodeTypes.Batch({ ...shared, ...item, batchIndex: at + 1 }));
                this.nodes.addBatchList(name, items);
                this.ready.push(...items);
            }
            else if (index) {
                const { taskId, ...shared } = node;
                const item = new NodeTypes.Batch({ ...shared, input, storage, batchIndex: index });
                this.nodes.addBatch(item);
                this.ready.push(item);
            }
            else {
                const item = new NodeTypes.Node({ ...node, input, storage });
                this.nodes.setNode(item);
                this.ready.push(item);
            }
        }
        catch (error) {
            this.error = error.message;
        }
    }

    skip(node) {
        const item = new NodeTypes.Batch({ ...node, status: 'skipped', batchIndex: -1 });
        this.nodes.addBatch(item);
        this.nodes.setNode({ nodeName: node.nodeName, result: [], status: 'skipped' });
        this.nodes.updateCompletedTask(item);
    }

    end({ taskId, nodeName, batchIndex, input, storage }) {
        this.tasks.push({ node: nodeName, index: batchIndex || null, input: this.filled(input, storage) });
        const task = { taskId, nodeName, batchIndex };
        if ((this.failures[nodeName] || []).includes(batchIndex || 0)) {
            this.nodes.updateTaskState(taskId, { status: 'failed', error: 'no' });
            if (!batchIndex) {
                this.error = 'no';
                return;
            }
            const states = this.nodes.getNodeStates(nodeName);
            const failed = states.filter(state => state === 'failed');
            const percent = ((failed.length / states.length) * 100).toFixed(0);
            const { batchTolerance } = this.pipeline.options;
            if (percent >= batchTolerance) {
                this.error = `${failed.length}/${states.length} (${percent}%) failed tasks, `
                    + `batch tolerance is ${batchTolerance}%, error: no`;
                return;
            }
        }
        else {
            const answers = this.answers[nodeName];
            const path = taskId;
            this.stored[path] = answers[(batchIndex || 0) % answers.length];
            const metadata = parser.objectToMetadata({ [nodeName]: this.stored[path] }, this.nodes.extractPaths(nodeName));
            this.nodes.updateTaskState(taskId, { status: 'succeed', result: { storageInfo: { path }, metadata } });
        }
        this.nodes.updateCompletedTask(task);
    }

    read(place, path) {
        const value = this.stored[place];
        const found = value && path ? objectPath.get(value, path) : value;
        return found === undefined ? null : found;
    }

    // Failed tasks have no place in the storage; algorithms are not told of them.
    filled(value, storage) {
        if (typeof value === 'string' && value.startsWith('$$')) {
            const link = storage[value.slice(2)];
            return Array.isArray(link)
                ? link.filter(each => each.storageInfo).map(each => this.read(each.storageInfo.path, each.path))
                : this.read(link.storageInfo.path, link.path);
        }
        if (Array.isArray(value)) {
            return value.map(each => this.filled(each, storage));
        }
        if (value && typeof value === 'object') {
            return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.filled(each, storage)]));
        }
        return value;
    }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
    let answer;
    try {
        answer = new Driver(JSON.parse(line)).run();
    }
    catch (error) {
        answer = { refused: error.message };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
});
