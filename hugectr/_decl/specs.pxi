# SPDX-License-Identifier: Apache-2.0
# Dicts -> the C++ specs. Every field is taken out of a copy of the dict; what is left is unknown.


class _Fields:
    """Fields of one dict, taken one by one."""

    def __init__(self, what, fields):
        if not isinstance(fields, dict):
            raise InvalidArgument(f"{what}: must be a dict, found {type(fields).__name__}")
        self.what = what
        self.fields = dict(fields)

    def take(self, name, fallback):
        return self.fields.pop(name, fallback)

    def choose(self, name, fallback, allowed):
        value = self.fields.pop(name, fallback)
        if value not in allowed:
            raise InvalidArgument(
                f"{self.what}.{name}: found {value!r}, allowed: {', '.join(map(repr, allowed))}")
        return allowed[value]

    def done(self):
        if self.fields:
            raise InvalidArgument(f"{self.what}: unknown field {sorted(self.fields)[0]!r}")


_DEVICES = {"cpu": <int>CppDeviceType.Cpu, "cuda": <int>CppDeviceType.Cuda}
_EMBEDDINGS = {
    "DistributedSlotSparseEmbeddingHash":
        <int>CppEmbeddingType.DistributedSlotSparseEmbeddingHash,
    "LocalizedSlotSparseEmbeddingHash": <int>CppEmbeddingType.LocalizedSlotSparseEmbeddingHash}
_COMBINERS = {
    "sum": <int>CppCombiner.Sum,
    "mean": <int>CppCombiner.Mean,
    "concat": <int>CppCombiner.Concat,
}
_INITIAL_KINDS = {
    "uniform": <int>CppInitialKind.Uniform,
    "sinusoidal": <int>CppInitialKind.Sinusoidal,
}
_EVICTIONS = {"none": <int>EvictionNone, "lru": <int>CppEviction.Lru,
              "lfu": <int>CppEviction.Lfu, "ttl": <int>CppEviction.Ttl}
_WIRES = {"own": <int>CppWireType.Own, "fp32": <int>CppWireType.Float32,
          "bf16": <int>CppWireType.BFloat16, "fp16": <int>CppWireType.Float16,
          "fp8": <int>CppWireType.Float8}
_EXCHANGES = {"auto": <int>CppExchangeType.Auto, "pooled": <int>CppExchangeType.Pooled,
              "unique": <int>CppExchangeType.Unique}
_CHECKS = {"Sum": <int>CppCheck.Sum, "None": <int>CheckNone}
_FORMATS = {name: number for number, name in enumerate(cpp_data_format_names())}
_BAD_DATA = {"error": <int>CppOnBadData.Error, "skip": <int>CppOnBadData.Skip}
_RAW_KEYS = {"BySize": <int>CppRawKeys.BySize, "All": <int>CppRawKeys.All}
_LAYOUTS = {"LocalFirst": <int>CppDeviceLayout.LocalFirst,
            "NodeFirst": <int>CppDeviceLayout.NodeFirst}

_COMPUTE_DTYPES = {"float32": <int>CppTensorScalarType.Float32,
                   "float16": <int>CppTensorScalarType.Float16,
                   "bfloat16": BFloat16_}


cdef CppTensorScalarType _compute_dtype(dtype) except *:
    if dtype not in _COMPUTE_DTYPES:
        raise InvalidArgument(f"dtype: found {dtype!r}, allowed: 'float32', 'float16', 'bfloat16'")
    return <CppTensorScalarType><int>_COMPUTE_DTYPES[dtype]


cdef CppOptParams _opt_params(fields) except *:
    f = _Fields("opt_params", fields)
    cdef string optimizer = f.take("optimizer", "Adam")
    cdef string update_type = f.take("update_type", "Global")
    cdef cbool atomic_update = f.take("atomic_update", True)
    cdef cmap[string, double] numbers
    for name, value in f.fields.items():
        numbers[<string>name] = value
    return make_opt_params(optimizer, update_type, atomic_update, numbers)


cdef int _add_attribute(CppAttributes& attributes, str layer, str name, value) except -1:
    cdef cbool flag
    cdef vector[int64_t] ints
    cdef vector[double] doubles
    cdef string text
    if isinstance(value, (bool, np.bool_)):
        flag = value
        attributes.set(name, CppAttributeValue(flag))
    elif isinstance(value, (int, np.integer)):
        attributes.set(name, CppAttributeValue(<int64_t>value))
    elif isinstance(value, (float, np.floating)):
        attributes.set(name, CppAttributeValue(<double>value))
    elif isinstance(value, str):
        text = value
        attributes.set(name, CppAttributeValue(text))
    elif isinstance(value, (list, tuple)):
        if all(isinstance(v, (int, np.integer)) for v in value):
            ints = value
            attributes.set(name, CppAttributeValue(ints))
        else:
            doubles = value
            attributes.set(name, CppAttributeValue(doubles))
    else:
        raise InvalidArgument(
            f"layer '{layer}': attribute {name} is a {type(value).__name__}; "
            "allowed: bool, int, float, str, list of int, list of float")
    return 0


cdef vector[CppDenseLayerSpec] _layer_specs(layers) except *:
    cdef vector[CppDenseLayerSpec] specs
    cdef CppDenseLayerSpec spec
    for fields in layers:
        f = _Fields("layer", fields)
        spec = CppDenseLayerSpec()
        spec.type = f.take("type", "")
        spec.bottoms = f.take("bottoms", [])
        spec.tops = f.take("tops", [])
        name = fields["tops"][0] if fields.get("tops") else fields.get("type", "")
        for key, value in f.take("attributes", {}).items():
            _add_attribute(spec.attributes, name, key, value)
        f.done()
        specs.push_back(spec)
    return specs


cdef object _attributes_dict(const CppAttributes& attributes):
    result = {}
    cdef const CppAttributeValue* value
    cdef string name
    cdef cmap[string, CppAttributeValue].const_iterator it = attributes.values().const_begin()
    while it != attributes.values().const_end():
        name = deref(it).first
        value = &deref(it).second
        preincrement(it)
        if get_bool(value):
            result[name] = bool(get_bool(value)[0])
        elif get_int(value):
            result[name] = get_int(value)[0]
        elif get_double(value):
            result[name] = get_double(value)[0]
        elif get_string(value):
            result[name] = get_string(value)[0]
        elif get_ints(value):
            result[name] = list(get_ints(value)[0])
        else:
            result[name] = list(get_doubles(value)[0])
    return result


cdef CppLearningRateParams _lr_params(f) except *:
    cdef CppLearningRateParams p
    p.base_lr = f.take("lr", 0.001)
    p.warmup_steps = f.take("warmup_steps", 1)
    p.decay_start = f.take("decay_start", 0)
    p.decay_steps = f.take("decay_steps", 1)
    p.decay_power = f.take("decay_power", 2.0)
    p.end_lr = f.take("end_lr", 0.0)
    return p


cdef CppSolverSpec _solver_spec(fields) except *:
    f = _Fields("solver", fields)
    cdef CppSolverSpec s
    s.model_name = f.take("model_name", "")
    s.seed = f.take("seed", 0)
    s.batchsize = f.take("batchsize", 2048)
    s.batchsize_eval = f.take("batchsize_eval", 2048)
    s.max_eval_batches = f.take("max_eval_batches", 100)
    s.vvgpu = f.take("vvgpu", [[0]])
    s.device = <CppDeviceType><int>f.choose("device", "cpu", _DEVICES)
    s.device_layout = <CppDeviceLayout><int>f.choose("device_layout", "LocalFirst", _LAYOUTS)
    s.repeat_dataset = f.take("repeat_dataset", True)
    s.drop_incomplete_batch = f.take("drop_incomplete_batch", False)
    s.lr = _lr_params(f)
    s.i64_input_key = f.take("i64_input_key", False)
    s.compute_dtype = _compute_dtype(f.take("compute_dtype", "float32"))
    s.loss_scale = f.take("loss_scale", 0.0)
    s.dynamic_loss_scale = f.take("dynamic_loss_scale", False)
    s.tf32 = f.take("tf32", False)
    s.fp8 = f.take("fp8", False)
    s.use_algorithm_search = f.take("use_algorithm_search", True)
    s.metrics = f.take("metrics", ["AUC"])
    s.use_cuda_graph = f.take("use_cuda_graph", True)
    s.micro_batches = f.take("micro_batches", 1)
    f.done()
    return s


cdef CppMemoryPtr _memory_data(fields) except *:
    cdef shared_ptr[CppMemoryData] data = make_shared[CppMemoryData]()
    cdef CppMemorySparse sparse
    if fields is None:
        return CppMemoryPtr()
    f = _Fields("memory", fields)
    label, dense = f.take("label", None), f.take("dense", None)
    data.get().samples = len(label)
    data.get().label = _floats(label)
    data.get().dense = _floats(dense)
    weight = f.take("weight", None)
    if weight is not None:
        data.get().weight = _floats(weight)
    for keys, offsets in f.take("sparse", []):
        sparse.keys = _int64s(keys)
        sparse.row_offsets = _uint64s(offsets)
        data.get().sparse.push_back(sparse)
    f.done()
    return <CppMemoryPtr>data


cdef CppInputSpec _input_spec(fields) except *:
    f = _Fields("input", fields)
    cdef CppInputSpec i
    cdef CppSparseInput sparse
    cdef CppLabelInput label
    i.label_name = f.take("label_name", "label")
    i.dense_name = f.take("dense_name", "dense")
    i.label_dim = f.take("label_dim", 1)
    i.dense_dim = f.take("dense_dim", 0)
    i.group_name = f.take("group_name", "")
    for name, dim in f.take("labels", []):
        label.name, label.dim = name, dim
        i.labels.push_back(label)
    for entry in f.take("sparse", []):
        g = _Fields("input.sparse", entry)
        sparse.top_name = g.take("top_name", "")
        sparse.nnz_per_slot = g.take("nnz_per_slot", [])
        sparse.is_fixed_length = g.take("is_fixed_length", False)
        sparse.slot_num = g.take("slot_num", 0)
        g.done()
        i.sparse.push_back(sparse)
    f.done()
    return i


cdef CppRowLife _row_life(fields) except *:
    f = _Fields("life", fields)
    cdef CppRowLife life
    life.max_rows = f.take("max_rows", 0)
    life.evict = <CppEviction><int>f.choose("evict", "none", _EVICTIONS)
    life.ttl = f.take("ttl", 0)
    life.decay = f.take("decay", 1.0)
    life.evict_every = f.take("evict_every", 0)
    life.admit_after = f.take("admit_after", 1)
    life.ttl_column = f.take("ttl_column", "").encode()
    f.done()
    return life


cdef CppTableMemory _table_memory(fields) except *:
    """What a table's fields say of tiers; ``fields`` loses them."""
    cdef CppTableMemory memory
    cdef CppTableDisk disk
    size = fields.take("memory_device", None)
    if size is not None:
        memory.device = <size_t>size
    size = fields.take("memory_host", None)
    if size is not None:
        memory.host = <size_t>size
    folder = fields.take("memory_disk_folder", None)
    if folder is not None:
        disk.folder = folder
        disk.bytes = fields.take("memory_disk", 0)
        memory.disk = disk
    return memory


cdef CppModelSpec _model_spec(fields) except *:
    f = _Fields("model", fields)
    cdef CppModelSpec m
    cdef CppSparseEmbeddingSpec e
    m.input = _input_spec(f.take("input", {}))
    m.opt_params = _opt_params(f.take("opt_params", {}))
    m.layers = _layer_specs(f.take("layers", []))
    m.trains = f.take("trains", True)
    for entry in f.take("embeddings", []):
        g = _Fields("embedding", entry)
        e = CppSparseEmbeddingSpec()
        e.type = <CppEmbeddingType><int>g.choose("type", None, _EMBEDDINGS)
        e.workspace_size_per_gpu_in_mb = g.take("workspace_size_per_gpu_in_mb", 0)
        e.max_vocabulary_size_per_gpu = g.take("max_vocabulary_size_per_gpu", 0)
        e.embedding_vec_size = g.take("embedding_vec_size", 0)
        e.combiner = <CppCombiner><int>g.choose("combiner", "sum", _COMBINERS)
        e.exchange = <CppExchangeType><int>g.choose("exchange", "auto", _EXCHANGES)
        e.wire = <CppWireType><int>g.choose("wire", "own", _WIRES)
        placement = g.take("placement", None)
        if placement is not None:
            e.placement = placement_named(<string>placement)
        e.placement_device = g.take("placement_device", 0)
        e.frequent = _int64s(g.take("frequent", []))
        e.name = g.take("name", "")
        e.top = g.take("top", "")
        e.bottoms = g.take("bottoms", [])
        e.slot_size_array = g.take("slot_size_array", [])
        e.vector_type = _compute_dtype(g.take("vector_type", "float32"))
        e.direct = g.take("direct", False)
        e.initial.kind = <CppInitialKind><int>g.choose("initial", "uniform", _INITIAL_KINDS)
        e.initial.bound = g.take("initial_bound", 0.0)
        e.life = _row_life(g.take("life", {}))
        params = g.take("opt_params", None)
        if params is not None:
            e.opt_params = _opt_params(params)
        e.memory = _table_memory(g)
        g.done()
        m.embeddings.push_back(e)
    f.done()
    return m


cdef CppLossScalingState _loss_scaling_state(state) except *:
    cdef CppLossScalingState s
    f = _Fields("loss scaling", state)
    s.scale, s.good_steps = f.take("scale", 1.0), f.take("good_steps", 0)
    s.skipped_steps = f.take("skipped_steps", 0)
    f.done()
    return s


cdef vector[CppNonTrainableValues] _non_trainable_values(values) except *:
    cdef vector[CppNonTrainableValues] all_values
    cdef CppNonTrainableValues one
    for layer, mean, var in values:
        one.layer = layer
        one.mean = _doubles(mean)
        one.var = _floats(var)
        all_values.push_back(one)
    return all_values
